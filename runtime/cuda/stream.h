#pragma once
/// A CUDA stream: operations with names, events, host calls, graphs, and the first fault of its kernels.

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

/// Used by one host thread, as every stream. After an error what is enqueued behind it still runs, on memory that is
/// its own; synchronize() throws, so nothing of it is seen.
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

    /// Asked again and again while the host waits: what throws there ends the wait (errors of peers).
    void on_wait(std::function<void()> look) { look_ = std::move(look); }
    /// How a fault of this stream's kernels reads.
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
    /// A span whose end the device has not reached yet, while traces are kept.
    struct Timed {
        const char* what;
        size_t bytes;
        cudaEvent_t begin, end;
    };
    static constexpr uint64_t kEvents = 1024, kCalls = 256;

    /// True: the operation is being timed.
    bool begin_operation(const char* what);
    void end_operation(const char* what, size_t bytes, bool timed);
    cudaEvent_t event(uint64_t ticket) const { return events_[ticket % kEvents]; }
    void await(uint64_t ticket) const;
    /// Looks again and again until done(), or fails when that has taken too long: `what` has not finished.
    template <class Done>
    void wait_until(const Done& done, const char* what, const char* operation) const;
    /// Throws the first error of this stream's work, and takes over the spans of what is done.
    void look_here();
    void collect_spans();

    const char* name_;
    int device_;
    cudaStream_t handle_ = nullptr;
    std::array<cudaEvent_t, kEvents> events_{};
    uint64_t recorded_ = 0;         // events ever
    mutable uint64_t reached_ = 0;  // the latest that is known to be over
    const char* last_ = "nothing";  // the operation enqueued last
    DeviceFault *fault_ = nullptr, *fault_on_device_ = nullptr;
    Describe describe_ = nullptr;
    std::function<void()> look_;
    std::shared_ptr<Watch> watch_;  // the errors of those it has waited for are its own, too

    Recorded* capturing_ = nullptr;
    std::unique_ptr<PendingCall[]> calls_;
    uint64_t called_ = 0;
    struct HostError;  // of a host call: what the driver's thread touches
    std::unique_ptr<HostError> host_error_;

    trace::Lane& lane_;
    cudaEvent_t epoch_ = nullptr;  // where the device's clock meets the host's
    uint64_t epoch_ns_ = 0;
    std::deque<Timed> timed_;
    std::vector<cudaEvent_t> idle_;  // timing events
};

/// The stream as the CUDA backend's; a stream of another backend is a bug.
CudaStream& cuda(Stream& stream);

}  // namespace trireme
