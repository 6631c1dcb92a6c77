#pragma once
/// Comm: collectives of ranks. One contract and one test suite; implementations are self, threads, MPI, NCCL, staged.

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

/// An error that every rank throws with the same text: rank 0 reports it, and no rank has to be aborted.
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// Every rank makes the same calls in the same order. Device calls enqueue on the stream and return. Control calls
/// block the host, at most TRIREME_TIMEOUT_S (then Exit::kUnavailable, naming call and rank). Device calls use one
/// stream at a time, which turn() changes. A Comm must outlive what was enqueued through it.
class Comm {
  public:
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual const char* name() const = 0;

    /// Later device calls are enqueued on `stream`. It first waits for the work on the previous calls' stream, so that
    /// all ranks run device calls in the order in which they were enqueued. Does nothing if the stream is the same.
    void turn(Stream& stream);
    /// Must be called before `stream` is destroyed.
    void leave(const Stream& stream) noexcept;

    /// x = x_0 + x_1 + ... in rank order: bitwise identical on every rank at any length, except for the payload of a
    /// NaN. x is f32, contiguous, and has one shape on all ranks.
    void all_reduce(Stream& stream, const Tensor& x);
    /// out[r] = part of rank r.  out [size, ...part's shape]; part is contiguous and has one shape on all ranks. It is
    /// out[rank] itself, or does not overlap out.
    void all_gather(Stream& stream, const Tensor& out, const Tensor& part);

    /// Sets `bytes` on every rank to those of rank `root`. Sizes may differ between ranks before the call.
    void broadcast(std::string& bytes, int root = 0);
    /// Returns the bytes of every rank, in rank order.
    std::vector<std::string> gather_bytes(const std::string& mine);
    /// Like gather_bytes(), for plain values. Errors: Exit::kInternal if a rank's value has another size.
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
    /// Returns the most severe status of all ranks, so that they leave a phase together.
    Exit agree(Exit status);

    /// Ends all ranks with `code` at once: processes exit, ranks that are threads throw. Never waits for a peer; the
    /// waits of other ranks return with an error.
    [[noreturn]] virtual void abort(Exit code) = 0;

  private:
    enum class Call : char { kBroadcast, kGather, kBarrier, kAgree };

    virtual void do_all_reduce(Stream& stream, const Tensor& x) = 0;
    virtual void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) = 0;
    /// A later stream may have the same address.
    virtual void do_leave(const Stream&) noexcept {}
    /// Returns whether device calls of several streams share buffers, or the order in which ranks meet.
    virtual bool streams_share() const { return true; }
    /// The primitive of all control calls: returns the bytes of every rank, in rank order. Blocks. Sizes may differ.
    virtual std::vector<std::string> do_gather(const std::string& mine) = 0;

    /// Gathers with a header, which shows that ranks are in different calls. Errors: AgreedError, Exit::kInternal.
    std::vector<std::string> gather(Call call, const std::string& mine);

    uint64_t calls_ = 0;        // control calls made so far
    Stream* stream_ = nullptr;  // the stream of the last device calls
};

}  // namespace trireme
