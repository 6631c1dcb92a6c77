#pragma once
/// CudaStream: named operations, events, host calls, graphs, and the first fault of its kernels.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/launch_body.h"
#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/trace.h"
#include "runtime/watch.h"

namespace trireme {

/// CudaStream is used by one host thread, like every stream. After an error, kernels and copies still run; they touch
/// only valid memory. Host calls are skipped once one has thrown. synchronize() throws, so no result is used.
class CudaStream final : public Stream {
  public:
    CudaStream(const char* name, int device);
    ~CudaStream() override;

    /// enqueue(cudaStream_t) puts one operation on the stream. `what` must be a literal.
    template <class Enqueue>
    void run(const char* what, size_t bytes, const Enqueue& enqueue) {
        const bool timed = begin_operation(what);
        enqueue(handle_);
        end_operation(what, bytes, timed);
    }
    cudaStream_t handle() const { return handle_; }
    DeviceFault* fault() const { return fault_on_device_; }

    /// Sets a function to call repeatedly while the host waits. Its exception (a peer's error) ends the wait.
    void on_wait(std::function<void()> look) { look_ = std::move(look); }
    /// Converts a fault of this stream's kernels to an error.
    using Describe = Error (*)(const char* operation, const gpu::FaultRecord& fault);
    void describe_faults(Describe describe) { describe_ = describe; }

    std::unique_ptr<Graph> capture(const std::function<void()>& body) override;
    Event record() override;
    bool reached(const Event& event) const override;
    void synchronize(const Event& event) override;
    using Stream::synchronize;
    trace::Total spent(const char* what) const override { return trace::total(lane_, what); }
    const char* name() const override { return name_; }

  protected:
    void do_wait(const Event& event, const char* what) override;
    void do_copy(void* dst, const void* src, size_t bytes, const char* what) override;
    void do_upload(void* dst, const void* src, size_t bytes, const char* what) override;
    void do_copy_on_device(void* dst, const void* src, size_t bytes, const char* what) override;
    void do_call_host(const char* name, size_t bytes, const HostCall& call) override;

  private:
    struct PendingCall;
    class Recorded;
    /// A span whose end the device has not reached yet, while a trace is recorded.
    struct Timed {
        const char* what;
        size_t bytes;
        cudaEvent_t begin, end;
    };
    static constexpr uint64_t kEvents = 1024, kCalls = 256;

    /// Returns whether the operation is timed.
    bool begin_operation(const char* what);
    void end_operation(const char* what, size_t bytes, bool timed);
    cudaEvent_t event(uint64_t ticket) const { return events_[ticket % kEvents]; }
    void await(uint64_t ticket) const;
    /// Polls until done(). Throws after TRIREME_TIMEOUT_S: `what` and `operation` name what has not finished.
    template <class Done>
    void wait_until(const Done& done, const char* what, const char* operation) const;
    /// Throws the first error of this stream's work, and collects the spans of finished operations.
    void look_here();
    void collect_spans();

    const char* name_;
    int device_;
    cudaStream_t handle_ = nullptr;
    std::array<cudaEvent_t, kEvents> events_{};
    uint64_t recorded_ = 0;         // number of events
    mutable uint64_t reached_ = 0;  // the latest event that is known to be reached
    const char* last_ = "nothing";  // the operation enqueued last
    DeviceFault *fault_ = nullptr, *fault_on_device_ = nullptr;
    Describe describe_ = nullptr;
    std::function<void()> look_;
    std::shared_ptr<Watch> watch_;  // includes the errors of streams that it waited for

    Recorded* capturing_ = nullptr;
    std::unique_ptr<PendingCall[]> calls_;
    uint64_t called_ = 0;
    struct HostError;  // of a host call; written by the driver's thread
    std::unique_ptr<HostError> host_error_;

    trace::Lane& lane_;
    cudaEvent_t epoch_ = nullptr;  // an event at a known time of the host's clock
    uint64_t epoch_ns_ = 0;
    std::deque<Timed> timed_;
    std::vector<cudaEvent_t> idle_;  // unused timing events
};

/// Casts to the CUDA backend's stream; a stream of another backend is a bug.
CudaStream& cuda(Stream& stream);

}  // namespace trireme
