#pragma once
/// CudaStream: the stream of the CUDA backend. It adds to a cudaStream_t: traces of named operations, deadlines, and
/// errors of kernels, host calls and other streams, which synchronize() throws.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/launch_body.h"
#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/trace.h"
#include "runtime/watch.h"

namespace trireme {

/// One host thread uses it, like every stream. After an error, kernels and copies still run; they touch only valid
/// memory. Host calls are skipped once one has thrown. synchronize() throws, so no result is used.
class CudaStream final : public Stream {
  public:
    /// `name` must outlive the stream. `device`: index of the GPU. `dependent_launch`: a kernel directly after a kernel
    /// uses programmatic dependent launch (launch_kernel.h).
    CudaStream(const char* name, int device, bool dependent_launch);
    ~CudaStream() override;

    /// Calls enqueue(cudaStream_t), which puts one operation on the stream. `what` (a literal) and `bytes` go into the
    /// trace.
    template <class Enqueue>
    void run(const char* what, size_t bytes, const Enqueue& enqueue) {
        const bool timed = begin_operation(what);
        after_kernel_ = false;
        enqueue(handle_);
        end_operation(what, bytes, timed);
    }
    /// Calls enqueue(cudaStream_t, bool), which puts one kernel of this project on the stream. True: it is a dependent
    /// launch.
    template <class Enqueue>
    void run_kernel(const char* what, size_t bytes, const Enqueue& enqueue) {
        const bool timed = begin_operation(what);  // between events, if so
        enqueue(handle_, std::exchange(after_kernel_, false) && !timed);
        after_kernel_ = dependent_launch_ && !timed;
        end_operation(what, bytes, timed);
    }
    cudaStream_t handle() const { return handle_; }
    /// The device address of this stream's fault record, for kernels.
    DeviceFault* fault() const { return fault_on_device_; }

    /// Sets a function to call repeatedly while the host waits; NcclComm sets it. Its exception (a peer's error) ends
    /// the wait, and gives up the GPUs (call.h).
    void on_wait(std::function<void()> look) { look_ = std::move(look); }
    /// Converts a fault of this stream's kernels to the error that synchronize() throws.
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

    /// Returns whether the operation is timed: only while a trace is recorded, and not within a graph.
    bool begin_operation(const char* what);
    /// `timed`: the result of begin_operation().
    void end_operation(const char* what, size_t bytes, bool timed);
    cudaEvent_t event(uint64_t ticket) const { return events_[ticket % kEvents]; }
    /// Blocks until the event of `ticket` is reached.
    void await(uint64_t ticket) const;
    /// Polls until done(). Throws after TRIREME_TIMEOUT_S: `what` and `operation` name what has not finished.
    template <class Done>
    void wait_until(const Done& done, const char* what, const char* operation) const;
    /// Throws the first error of this stream's own work; without one, calls collect_spans().
    void look_here();
    /// Adds the finished operations of timed_ to the trace.
    void collect_spans();

    const char* name_;
    int device_;
    bool dependent_launch_;
    bool after_kernel_ = false;  // the next kernel may be a dependent launch: the operation enqueued last was a kernel
    cudaStream_t handle_ = nullptr;
    std::array<cudaEvent_t, kEvents> events_{};  // a ring
    uint64_t recorded_ = 0;                      // number of record() calls: the ticket of the latest event
    mutable uint64_t reached_ = 0;               // the latest ticket that is known to be reached
    const char* last_ = "nothing";               // the operation enqueued last
    DeviceFault *fault_ = nullptr, *fault_on_device_ = nullptr;  // one record: its host and its device address
    Describe describe_ = nullptr;                                // null: a fault has no text of its own
    std::function<void()> look_;                                 // on_wait()
    std::shared_ptr<Watch> watch_;                               // includes the errors of streams that it waited for

    Recorded* capturing_ = nullptr;         // the graph that is being recorded, or null
    std::unique_ptr<PendingCall[]> calls_;  // a ring of kCalls, for calls outside of graphs
    uint64_t called_ = 0;                   // number of such calls
    struct HostError;                       // of a host call; written by the driver's thread
    std::unique_ptr<HostError> host_error_;

    trace::Lane& lane_;
    cudaEvent_t epoch_ = nullptr;  // an event at a known time of the host's clock
    uint64_t epoch_ns_ = 0;
    std::deque<Timed> timed_;        // in the order of the stream
    std::vector<cudaEvent_t> idle_;  // unused timing events
};

/// Casts to the CUDA backend's stream; a stream of another backend is a bug.
CudaStream& cuda(Stream& stream);

}  // namespace trireme
