#pragma once
/// Streams and events: work in order, asynchronous on every backend. Nobody uses a default stream.

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

/// A point in a stream's past. A default-made event has always been reached.
struct Event {
    const Stream* stream = nullptr;
    uint64_t ticket = 0;
};

/// One queue of a device. All calls enqueue and return, but `synchronize`. Errors of enqueued work surface there,
/// every time, and at every stream that waits for this one; later work of a failed stream is skipped.
class Stream {
  public:
    Stream() = default;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    virtual ~Stream() = default;

    /// Same bytes in source and destination; both contiguous. Memory must live until the copy is done. `what` (a
    /// literal) is its name in traces.
    void copy(const Tensor& dst, const HostTensor& src, const char* what = "copy_h2d");
    /// Like copy, for the few kilobytes that the next kernels read: they do not queue behind the large copies of other
    /// streams. On a GPU a kernel reads them where they are, so `src` must be memory of Device::allocate.
    void upload(const Tensor& dst, const HostTensor& src, const char* what = "upload");
    void copy(const HostTensor& dst, const Tensor& src, const char* what = "copy_d2h");
    void copy(const Tensor& dst, const Tensor& src, const char* what = "copy_d2d");

    /// Runs f() on a thread of the backend's when all before it is done; what is behind it waits. f may block for what
    /// other processes do, but not for another host call of this one: a card's driver may run them one after the other.
    /// It throws what becomes the stream's error, and makes no call of a stream. `name` must be a literal.
    template <class F>
    void call_host(const char* name, size_t bytes, const F& f) {
        static_assert(sizeof(F) <= HostCall::kBytes && alignof(F) <= alignof(std::max_align_t));
        static_assert(std::is_trivially_copyable_v<F>, "a call may be repeated (a graph), or dropped");
        HostCall call{.run = [](void* closure) { (*static_cast<F*>(closure))(); }};
        ::new (static_cast<void*>(call.closure.data())) F(f);
        do_call_host(name, bytes, call);
    }

    /// Records what `body` enqueues here, instead of running it: operations, copies and host calls; no events.
    /// Null: this backend has no graphs, and body was not called.
    virtual std::unique_ptr<Graph> capture(const std::function<void()>& body);

    /// The point after everything enqueued so far.
    virtual Event record() = 0;
    /// What is enqueued from here on starts after `event`. `what` (a literal) is the waiting's name in traces.
    void wait(const Event& event, const char* what = "wait") { do_wait(event, what); }
    virtual bool reached(const Event& event) const = 0;
    /// The host waits for `event` of this stream. Gives up (Exit::kUnavailable) when nothing has finished for
    /// TRIREME_TIMEOUT_S seconds, naming the operation that hangs.
    virtual void synchronize(const Event& event) = 0;
    void synchronize() { synchronize(record()); }
    /// The same for destructors: work that is still queued may use what is about to be freed. Errors are left to
    /// whoever synchronizes next.
    void drain() noexcept;

    /// From here on a copy takes at least `us` microseconds and its bytes at `gbps` GB/s: the link of another machine.
    /// Errors: Exit::kConfig where the backend cannot.
    virtual void emulate_link(double gbps, double us);

    /// What this stream's operations called `what` (a literal) have come to since it was made, or since totals were
    /// reset (trace.h). Of backends that do not time each operation the time is 0.
    virtual trace::Total spent(const char* what) const { return {what, 0, 0, 0}; }

    virtual const char* name() const = 0;

  protected:
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
