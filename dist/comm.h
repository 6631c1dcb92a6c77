#pragma once
/// Ranks that add and gather. One contract, one test suite, several implementations: self, threads, MPI (NCCL later).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

/// Every rank makes the same calls in the same order. Device calls enqueue on the stream and return; control calls
/// block the host, with a deadline of TRIREME_TIMEOUT_S (then Exit::kUnavailable, naming call and rank).
class Comm {
  public:
    virtual ~Comm() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual const char* name() const = 0;

    /// x = x_0 + x_1 + ... in rank order, the same bits on every rank whatever the length.  f32, contiguous.
    void all_reduce(Stream& stream, const Tensor& x);
    /// out[r] = part of rank r.  out [size, ...part's shape], part contiguous, of one shape on all ranks.
    void all_gather(Stream& stream, const Tensor& out, const Tensor& part);

    /// The bytes of rank `root` on every rank. Sizes may differ between ranks before the call.
    void broadcast(std::string& bytes, int root = 0);
    /// What every rank gave, in rank order.
    std::vector<std::string> gather_bytes(const std::string& mine);
    void barrier();
    /// The most severe status: ranks leave a phase together.
    Exit agree(Exit status);

    /// Ends all ranks with `code`, now. Never waits for a peer; survivors' waits return with an error.
    [[noreturn]] virtual void abort(Exit code) = 0;
};

}  // namespace trireme
