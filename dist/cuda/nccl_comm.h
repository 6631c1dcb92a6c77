#pragma once
/// Ranks with a card each: device data by NCCL, control by the Comm that started them.

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

/// Blocking, as a non-blocking communicator starts a thread for every call: what a call waits for beyond
/// TRIREME_TIMEOUT_S, or a collective on its stream, ends the run on all ranks. Two ranks add by NCCL's all-reduce,
/// where there is one order; more send each other their parts and add in rank order, long vectors by slices.
class NcclComm final : public Comm {
  public:
    /// A collective call. Errors: Exit::kUnavailable.
    NcclComm(const NcclApi& api, Comm& control, CudaDevice& device);
    ~NcclComm() override;

    int rank() const override { return control_.rank(); }
    int size() const override { return control_.size(); }
    const char* name() const override { return "nccl"; }
    /// NCCL's kernels are told to give up; then the control's abort ends all ranks.
    [[noreturn]] void abort(Exit code) override;
    /// Collectives of every kind and size, so that what NCCL needs for them is there. A collective call.
    void connect();

  private:
    void do_all_reduce(Stream& stream, const Tensor& x) override;
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override;
    std::vector<std::string> do_gather(const std::string& mine) override { return control_.gather_bytes(mine); }

    /// to(q) is sent to every other rank q while from(q) is filled by it.
    template <class To, class From>
    void exchange(CudaStream& stream, const char* call, size_t bytes, const To& to, const From& from);
    void tell_to_give_up() noexcept;
    [[noreturn]] void hang(const char* call, uint64_t sequence, double seconds);
    Watchdog::Watch watch(const char* call) { return {watchdog_, Watchdog::kDevice, call}; }
    /// What the communicator says of calls that are still under way.
    ncclResult_t state() const;
    /// Throws what went wrong; under watch, as NCCL_COMM_BLOCKING=0 makes it wait here.
    void settle(ncclResult_t result, const char* call) const;
    CudaStream& watched(Stream& stream);
    void do_leave(const Stream& stream) noexcept override { std::erase(watched_, &stream); }

    const NcclApi& api_;
    Comm& control_;
    CudaDevice& device_;
    ncclComm_t comm_ = nullptr;
    std::atomic<bool> given_up_{false};       // by the watchdog or by who uses this
    GrowingBuffer<Space::kDevice> received_;  // what peers send
    std::vector<const Stream*> watched_;
    Watchdog watchdog_;
};

/// What ranks on CUDA cards talk through: NCCL; pinned host memory and `control` where ranks share a card or NCCL is
/// not there, which is said. Null: a rank alone needs nothing but `control`. A control call.
std::unique_ptr<Comm> make_cuda_comm(Comm& control, Device& device);

}  // namespace trireme
