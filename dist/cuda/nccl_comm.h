#pragma once
/// NcclComm: the Comm of ranks with a GPU each. Device calls go through NCCL, control calls through another Comm, which
/// started the ranks.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "dist/cuda/mailboxes.h"
#include "dist/cuda/nccl_api.h"
#include "dist/watchdog.h"
#include "runtime/buffer.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

namespace trireme {

/// The communicator is blocking, because a non-blocking one starts a thread for every call. A call, or a collective on
/// its stream, that waits longer than TRIREME_TIMEOUT_S ends the run on all ranks. Two ranks add by NCCL's all-reduce,
/// where only one order exists. More ranks exchange parts and add them in rank order, long vectors in slices. Ranks on
/// one machine add short vectors in Mailboxes, up to the length to which connect() finds these faster; the bits are the
/// same.
class NcclComm final : public Comm {
  public:
    /// A collective call. The arguments must outlive the object. Errors: Exit::kUnavailable.
    NcclComm(const NcclApi& api, Comm& control, CudaDevice& device);
    /// A collective call, unless an exception is in flight or the GPUs were given up.
    ~NcclComm() override;

    int rank() const override { return control_.rank(); }
    int size() const override { return control_.size(); }
    const char* name() const override { return "nccl"; }
    /// Aborts NCCL's kernels; then the abort of `control` ends all ranks.
    [[noreturn]] void abort(Exit code) override;
    /// Runs collectives of every kind and waits for them, so that NCCL allocates its memory now, and measures which
    /// vectors are added faster in Mailboxes. It must precede queries of free memory. A collective call.
    void connect();
    /// One line for the log: how ranks add.
    const std::string& ways() const { return ways_; }

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override { return control_.gather_bytes(mine); }

    /// Enqueues a message to(q) to every other rank q, and the receipt of from(q) from it. `bytes` are for the trace.
    template <class To, class From>
    void exchange(CudaStream& stream, const char* call, size_t bytes, const To& to, const From& from);
    /// Sets in_mailboxes_ and ways_ on all ranks alike.
    void choose_ways(Stream& stream, float* sums);
    /// Starts NCCL's abort in a thread, and gives it 0.2 s.
    void tell_to_give_up() noexcept;
    /// Called by the watchdog: reports the call and aborts.
    [[noreturn]] void hang(const char* call, uint64_t sequence, double seconds);
    /// Puts a call of NCCL under the watchdog's deadline, while the result lives.
    Watchdog::Watch watch(const char* call) { return {watchdog_, Watchdog::kDevice, call}; }
    /// Returns NCCL's asynchronous state: an error of a peer, or ncclInProgress.
    ncclResult_t state() const;
    /// Waits while `result` is ncclInProgress, then throws its error if there is one. Call it under a watch, because
    /// NCCL_COMM_BLOCKING=0 makes it wait.
    void settle(ncclResult_t result, const char* call) const;
    /// Returns the CUDA stream, whose waits now also end with an error of a peer.
    CudaStream& watched(Stream& stream);
    void do_leave(const Stream& stream) noexcept override { std::erase(watched_, &stream); }

    const NcclApi& api_;
    Comm& control_;
    CudaDevice& device_;
    ncclComm_t comm_ = nullptr;
    std::atomic<bool> given_up_{false};       // by the watchdog or by the caller
    GrowingBuffer<Space::kDevice> received_;  // data from peers
    std::optional<Mailboxes> mailboxes_;
    int64_t in_mailboxes_ = 0;  // vectors of at most this many floats are added there
    std::string ways_;
    std::vector<const Stream*> watched_;  // streams for which watched() was called
    Watchdog watchdog_;
};

/// Makes the Comm for device calls of ranks on GPUs: NcclComm, or StagedComm where ranks share a GPU or NCCL is
/// missing; the log says which. Returns null for a single rank. A collective call; both arguments must outlive the
/// result.
std::unique_ptr<Comm> make_cuda_comm(Comm& control, Device& device);

}  // namespace trireme
