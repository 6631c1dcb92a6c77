#pragma once
/// Comm: collectives of the ranks of a run. Forwards sum and gather activations with its device calls; host code agrees
/// on settings and errors with its control calls. Implementations: self, threads, MPI, NCCL, staged.

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

/// An error that every rank throws with the same code and text: rank 0 reports it, and no rank has to call abort().
class AgreedError : public Error {
  public:
    using Error::Error;
};

/// Every rank makes the same calls in the same order. Device calls (all_reduce, all_gather) enqueue on a stream and
/// return. Control calls (broadcast to agree) block the host until all ranks make them. After TRIREME_TIMEOUT_S a wait
/// fails or ends the run with Exit::kUnavailable, naming the call. Device calls use one stream at a time; turn()
/// changes it. A Comm must outlive what was enqueued through it.
class Comm {
  public:
    Comm() = default;
    Comm(const Comm&) = delete;
    Comm& operator=(const Comm&) = delete;
    virtual ~Comm() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Names the implementation, for the log: "self", "shared memory".
    virtual const char* name() const = 0;

    /// Announces that the next device calls use `stream`; a Level calls it before each forward. `stream` first waits
    /// for the work on the stream of the previous device calls. So all ranks run device calls in the order in which
    /// they were enqueued. Does nothing if the stream is the same. The host does not wait, and other ranks are not
    /// involved.
    void turn(Stream& stream);
    /// Forgets `stream`. Must be called before a stream that device calls used is destroyed.
    void leave(const Stream& stream) noexcept;

    /// Device call: x = x_0 + x_1 + ... in rank order. The sum is bitwise identical on every rank at any length, except
    /// for the payload of a NaN. x is f32, contiguous, and has one shape on all ranks.
    void all_reduce(Stream& stream, const Tensor& x);
    /// Device call: out[r] = part of rank r. out has the shape [size, part's shape]. part is contiguous and has one
    /// shape and type on all ranks. It is out[rank] itself, or does not overlap out.
    void all_gather(Stream& stream, const Tensor& out, const Tensor& part);

    /// Control call: sets `bytes` on every rank to those of rank `root`. Sizes may differ between ranks before the
    /// call.
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
    /// Returns when all ranks have called it. It does not wait for streams.
    void barrier();
    /// Returns the numerically largest status of all ranks, so that they leave a phase together.
    Exit agree(Exit status);

    /// Ends all ranks with `code` at once. No other rank has to call it, and it never waits for one. Processes exit.
    /// Ranks that are threads throw Error(code), from this call and from every wait of the others.
    [[noreturn]] virtual void abort(Exit code) = 0;

  private:
    enum class Call : char { kBroadcast, kGather, kBarrier, kAgree };

    virtual void do_all_reduce(Stream& stream, const Tensor& x) = 0;
    virtual void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) = 0;
    /// Removes the stream from what the implementation remembers: a later stream may have the same address.
    virtual void do_leave(const Stream&) noexcept {}
    /// Returns whether device calls of several streams need the order of turn(): they share buffers, or ranks must meet
    /// in one order.
    virtual bool streams_share() const { return true; }
    /// The primitive of all control calls: returns the bytes of every rank, in rank order. Blocks. Sizes may differ.
    virtual std::vector<std::string> do_gather(const std::string& mine) = 0;

    /// do_gather() with a header, which shows whether ranks are in different calls. Errors: AgreedError,
    /// Exit::kInternal.
    std::vector<std::string> gather(Call call, const std::string& mine);

    uint64_t calls_ = 0;        // control calls made so far
    Stream* stream_ = nullptr;  // the stream of the last device calls
};

}  // namespace trireme
