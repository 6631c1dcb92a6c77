#pragma once
/// Stream: a queue of a device, whose work runs in order and asynchronously to the host, on the CPU as well. Event: a
/// point in that work, for which the host or another stream can wait.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>

#include "runtime/graph.h"
#include "runtime/tensor.h"
#include "runtime/trace.h"

namespace trireme {

class Stream;

/// A point in a stream's work: record() returns it. A default-constructed event counts as reached.
struct Event {
    const Stream* stream = nullptr;
    uint64_t ticket = 0;  // numbered by the stream
};

/// One host thread at a time uses a stream. All calls enqueue and return, except synchronize() and drain(); they wait
/// only if the host is far ahead of the device. synchronize() throws the first error of enqueued work, each time, also
/// on streams that wait for this one. Later work of a failed stream is skipped (CPU) or its results are never used
/// (GPU). A GPU's default stream is never used.
class Stream {
  public:
    Stream() = default;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    virtual ~Stream() = default;

    /// Copies `src` to `dst`: both contiguous, with the same type and number of elements. Memory must live until the
    /// copy is done. `what` (a literal) names the copy in traces.
    void copy(const Tensor& dst, const HostTensor& src, const char* what = "copy_h2d");
    /// Like copy(), for the few kilobytes that the next kernels read: an upload does not wait for large copies of other
    /// streams. A GPU reads `src` in place with a kernel, so `src` must be memory of Device::allocate.
    void upload(const Tensor& dst, const HostTensor& src, const char* what = "upload");
    void copy(const HostTensor& dst, const Tensor& src, const char* what = "copy_d2h");
    void copy(const Tensor& dst, const Tensor& src, const char* what = "copy_d2d");

    /// Enqueues f(), which runs on a thread of the backend after all earlier work of the stream; later work waits for
    /// it. f may wait for other processes, but not for another host call of this process: a GPU driver may run these
    /// one after the other. An exception of f becomes the stream's error. f must not call a stream. `name` (a literal)
    /// and `bytes` go into the trace.
    template <class F>
    void call_host(const char* name, size_t bytes, const F& f) {
        static_assert(sizeof(F) <= HostCall::kBytes && alignof(F) <= alignof(std::max_align_t));
        static_assert(std::is_trivially_copyable_v<F>, "a call may be repeated (a graph), or dropped");
        HostCall call{.run = [](void* closure) { (*static_cast<F*>(closure))(); }};
        ::new (static_cast<void*>(call.closure.data())) F(f);
        do_call_host(name, bytes, call);
    }

    /// Calls `body`, and records the operations, copies and host calls that it enqueues on this stream, instead of
    /// running them. body must not use events or allocate. Returns null, without calling body, if the backend has no
    /// graphs.
    virtual std::unique_ptr<Graph> capture(const std::function<void()>& body);

    /// Returns the point after everything enqueued so far.
    virtual Event record() = 0;
    /// Makes later work of this stream start after `event` of any stream of the backend; the host does not wait. `what`
    /// (a literal) names the wait in traces.
    void wait(const Event& event, const char* what = "wait") { do_wait(event, what); }
    /// Returns whether the work before `event`, of this stream, is done. Does not block.
    virtual bool reached(const Event& event) const = 0;
    /// Blocks the host until `event` of this stream. Errors: those of the stream's work; Exit::kUnavailable after
    /// TRIREME_TIMEOUT_S seconds (on the CPU: without progress), naming the operation that hangs.
    virtual void synchronize(const Event& event) = 0;
    /// Blocks the host until everything enqueued so far is done.
    void synchronize() { synchronize(record()); }
    /// Like synchronize(), for destructors, since queued work may use memory that is about to be freed. Errors remain
    /// for the next synchronize().
    void drain() noexcept;

    /// Emulates the link of another machine (--link-gbps): each later copy takes at least `us` microseconds plus the
    /// time of its bytes at `gbps` GB/s. Errors: Exit::kConfig if the backend cannot.
    virtual void emulate_link(double gbps, double us);

    /// Returns the totals of this stream's operations named `what` (a literal) since it was made or totals were reset
    /// (trace.h). Backends that do not time each operation report a time of 0.
    virtual trace::Total spent(const char* what) const { return {what, 0, 0, 0}; }

    virtual const char* name() const = 0;

  protected:
    /// The f of call_host(), by value, and the function that calls it.
    struct HostCall {
        static constexpr size_t kBytes = 96;
        alignas(std::max_align_t) std::array<std::byte, kBytes> closure{};
        void (*run)(void*) = nullptr;
    };
    virtual void do_copy(void* dst, const void* src, size_t bytes, const char* name) = 0;
    virtual void do_upload(void* dst, const void* src, size_t bytes, const char* name) {
        do_copy(dst, src, bytes, name);
    }
    virtual void do_copy_on_device(void* dst, const void* src, size_t bytes, const char* name) {
        do_copy(dst, src, bytes, name);
    }
    virtual void do_wait(const Event& event, const char* what) = 0;
    virtual void do_call_host(const char* name, size_t bytes, const HostCall& call) = 0;
};

}  // namespace trireme
