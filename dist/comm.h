#pragma once
/// Ranks that add and gather. One contract, one test suite, several implementations: self, threads, MPI (NCCL later).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

/// An error that every rank throws with the same text: rank 0 reports it, nobody has to be aborted.
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// Every rank makes the same calls in the same order. Device calls enqueue on the stream and return; control calls
/// block the host, with a deadline of TRIREME_TIMEOUT_S (then Exit::kUnavailable, naming call and rank). Device calls
/// are on one stream at a time: turn() changes it. A Comm outlives what was enqueued through it.
class Comm {
  public:
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual const char* name() const = 0;

    /// Device calls on `stream` follow: it waits for what was enqueued on the stream of the calls before, so that all
    /// ranks run them in the order in which they were enqueued. Nothing to do where the stream is the same.
    void turn(Stream& stream);
    /// The stream is about to end.
    void leave(const Stream& stream) noexcept;

    /// x = x_0 + x_1 + ... in rank order, the same bits on every rank whatever the length (the payload of a NaN apart).
    /// f32, contiguous, of one shape on all ranks.
    void all_reduce(Stream& stream, const Tensor& x);
    /// out[r] = part of rank r.  out [size, ...part's shape], part contiguous, of one shape on all ranks; either apart
    /// from out, or out[rank] itself.
    void all_gather(Stream& stream, const Tensor& out, const Tensor& part);

    /// The bytes of rank `root` on every rank. Sizes may differ between ranks before the call.
    void broadcast(std::string& bytes, int root = 0);
    /// What every rank gave, in rank order.
    std::vector<std::string> gather_bytes(const std::string& mine);
    /// The same of plain values. Errors: Exit::kInternal where a rank's is of another size.
    template <class T>
    std::vector<T> gather_values(const T& mine) {
        static_assert(std::is_trivially_copyable_v<T>);
        std::vector<T> all;
        for (const std::string& bytes : gather_bytes({reinterpret_cast<const char*>(&mine), sizeof mine})) {
            check(bytes.size() == sizeof(T), "gather: {} bytes of a rank, {} of this one", bytes.size(), sizeof(T));
            std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
        }
        return all;
    }
    void barrier();
    /// The most severe status: ranks leave a phase together.
    Exit agree(Exit status);

    /// Ends all ranks with `code`, now: processes exit, ranks that are threads throw. Never waits for a peer;
    /// survivors' waits return with an error.
    [[noreturn]] virtual void abort(Exit code) = 0;

  private:
    enum class Call : char { kBroadcast, kGather, kBarrier, kAgree };

    virtual void do_all_reduce(Stream& stream, const Tensor& x) = 0;
    virtual void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) = 0;
    /// Another stream may come to lie where this one was.
    virtual void do_leave(const Stream&) noexcept {}
    /// Whether device calls of several streams share anything: buffers, or the order in which ranks meet.
    virtual bool streams_share() const { return true; }
    /// The one primitive of control calls: what every rank gave, in rank order. Blocks. Sizes may differ.
    virtual std::vector<std::string> do_gather(const std::string& mine) = 0;

    /// Gathers with a header, so that ranks in different calls find out. Errors: AgreedError, Exit::kInternal.
    std::vector<std::string> gather(Call call, const std::string& mine);

    uint64_t calls_ = 0;        // control calls made so far
    Stream* stream_ = nullptr;  // of the last device calls
};

}  // namespace trireme
