#pragma once
/// Streams and events: work in order, asynchronous on every backend. Nobody uses a default stream.

#include <cstddef>
#include <cstdint>

#include "runtime/tensor.h"

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

    /// Same bytes in source and destination; both contiguous. Memory must live until the copy is done.
    void copy(const Tensor& dst, const HostTensor& src);
    void copy(const HostTensor& dst, const Tensor& src);
    void copy(const Tensor& dst, const Tensor& src);

    /// The point after everything enqueued so far.
    virtual Event record() = 0;
    /// What is enqueued from here on starts after `event`.
    virtual void wait(const Event& event) = 0;
    virtual bool reached(const Event& event) const = 0;
    /// The host waits for `event` of this stream. Gives up (Exit::kUnavailable) when nothing has finished for
    /// TRIREME_TIMEOUT_S seconds, naming the operation that hangs.
    virtual void synchronize(const Event& event) = 0;
    void synchronize() { synchronize(record()); }
    /// The same for destructors: work that is still queued may use what is about to be freed. Errors are left to
    /// whoever synchronizes next.
    void drain() noexcept;

    virtual const char* name() const = 0;

  protected:
    virtual void do_copy(void* dst, const void* src, size_t bytes, const char* name) = 0;
};

}  // namespace trireme
