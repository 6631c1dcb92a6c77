#pragma once
/// Mailboxes: host memory in which the GPUs of ranks on one machine add short vectors, without NCCL.

#include "dist/comm.h"
#include "dist/cuda/mailbox_sum.h"
#include "dist/shared_memory.h"
#include "runtime/buffer.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

namespace trireme {

class Mailboxes {
  public:
    static constexpr int64_t kMost = int64_t{gpu::Mailbox::kBlocks} * gpu::Mailbox::kFloats;  // floats of a vector

    /// A collective call. Errors: AgreedError, with the reason, if ranks are not on one machine, a GPU does not map the
    /// memory, or TRIREME_SHM_SUMS=0.
    Mailboxes(Comm& control, CudaDevice& device);
    Mailboxes(const Mailboxes&) = delete;
    Mailboxes& operator=(const Mailboxes&) = delete;
    ~Mailboxes();

    /// Enqueues x = x_0 + x_1 + ... in rank order for n <= kMost floats. All ranks make the same calls in one order.
    void all_reduce(CudaStream& stream, float* x, int64_t n);
    /// Ends the kernels that wait for other ranks; their sums are wrong.
    void stop() noexcept;

  private:
    gpu::Mailbox* boxes() const { return reinterpret_cast<gpu::Mailbox*>(memory_.data()); }

    int rank_, ranks_;
    SharedMemory memory_;
    Buffer<Space::kDevice> calls_;
};

}  // namespace trireme
