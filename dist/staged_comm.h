#pragma once
/// StagedComm: the Comm of ranks that share a GPU, or have no NCCL. Device calls copy their data to pinned host memory,
/// and another Comm exchanges it there.

#include <exception>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "runtime/buffer.h"
#include "runtime/device.h"

namespace trireme {

/// Control calls also go to the inner Comm. It and the device must outlive this object, which must outlive the work and
/// graphs with its calls.
class StagedComm final : public Comm {
  public:
    StagedComm(Comm& inner, Device& device) : inner_(inner), memory_(device) {}

    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    const char* name() const override { return "staged"; }
    [[noreturn]] void abort(Exit code) override {
        inner_.abort(code);
        std::terminate();  // not reached: GCC does not see that a virtual call never returns
    }

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override { return inner_.gather_bytes(mine); }

    /// Returns pinned host memory as a Tensor, the type that the inner Comm's calls take.
    Tensor staging(DType dtype, const Shape& shape);

    Comm& inner_;
    GrowingBuffer<Space::kHost> memory_;
};

}  // namespace trireme
