#pragma once
/// NcclComm: ranks with a GPU each. Device data goes through NCCL, control calls through the Comm that started them.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "dist/cuda/nccl_api.h"
#include "dist/watchdog.h"
#include "runtime/buffer.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/stream.h"

namespace trireme {

/// The communicator is blocking, because a non-blocking one starts a thread for every call. A call, or a collective on
/// its stream, that waits longer than TRIREME_TIMEOUT_S ends the run on all ranks. Two ranks add by NCCL's all-reduce,
/// where only one order exists. More ranks exchange parts and add them in rank order, long vectors in slices.
class NcclComm final : public Comm {
  public:
    /// A collective call. Errors: Exit::kUnavailable.
    NcclComm(const NcclApi& api, Comm& control, CudaDevice& device);
    ~NcclComm() override;

    int rank() const override { return control_.rank(); }
    int size() const override { return control_.size(); }
    const char* name() const override { return "nccl"; }
    /// Aborts NCCL's kernels; then the abort of `control` ends all ranks.
    [[noreturn]] void abort(Exit code) override;
    /// Runs collectives of every kind and size, so that NCCL allocates what it needs for them. A collective call.
    void connect();

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override { return control_.gather_bytes(mine); }

    /// Sends to(q) to every other rank q while it receives from(q) from it.
    template <class To, class From>
    void exchange(CudaStream& stream, const char* call, size_t bytes, const To& to, const From& from);
    void tell_to_give_up() noexcept;
    [[noreturn]] void hang(const char* call, uint64_t sequence, double seconds);
    Watchdog::Watch watch(const char* call) { return {watchdog_, Watchdog::kDevice, call}; }
    /// Returns the state of calls that are still in progress.
    ncclResult_t state() const;
    /// Throws the error of a call. It runs under a watch, because NCCL_COMM_BLOCKING=0 makes it wait here.
    void settle(ncclResult_t result, const char* call) const;
    CudaStream& watched(Stream& stream);
    void do_leave(const Stream& stream) noexcept override { std::erase(watched_, &stream); }

    const NcclApi& api_;
    Comm& control_;
    CudaDevice& device_;
    ncclComm_t comm_ = nullptr;
    std::atomic<bool> given_up_{false};       // by the watchdog or by the caller
    GrowingBuffer<Space::kDevice> received_;  // data from peers
    std::vector<const Stream*> watched_;
    Watchdog watchdog_;
};

/// Makes the Comm for device data of ranks on GPUs: NCCL, or pinned host memory and `control` where ranks share a GPU
/// or NCCL is missing; the log says which. Returns null for a single rank. A control call.
std::unique_ptr<Comm> make_cuda_comm(Comm& control, Device& device);

}  // namespace trireme
