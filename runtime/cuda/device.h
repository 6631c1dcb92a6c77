#pragma once
/// CudaDevice: the CUDA backend's device: a GPU with its memory, pinned host memory and streams.

#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/memory.h"
#include "runtime/device.h"

namespace trireme {

/// Properties of a GPU, as the driver reported them when they were read.
struct CardFacts {
    int index = 0;
    std::string name, bus_id;                  // "NVIDIA GeForce RTX 4090", "0000:01:00.0"
    int major = 0, minor = 0;                  // compute capability
    size_t memory_total = 0, memory_free = 0;  // bytes
    bool geforce = false;                      // a consumer GPU: no access to other GPUs' memory
};
/// Returns the number of GPUs that this process sees. Errors: Exit::kUnavailable, also if there is none.
int count_cards();
/// Returns a line for each GPU, and a last line with the versions of the driver and the libraries.
std::vector<std::string> list_cards();

class CudaDevice final : public Device {
  public:
    /// Opens GPU request.index, or, if that is -1, GPU local_rank % n of n visible ones. Errors: Exit::kUnavailable if
    /// there is no such GPU, or its compute capability is below 8.0.
    explicit CudaDevice(const DeviceRequest& request);

    std::string_view backend() const override { return "cuda"; }
    std::string name() const override;
    size_t memory_total() const override { return facts_.memory_total; }
    size_t memory_free() const override;
    size_t host_memory_free() const override;
    std::string place() const override { return facts_.bus_id; }
    void shared_by(int ranks) override { sharers_ = ranks; }
    void* allocate(Space space, size_t bytes) override;
    void release(Space space, void* data, size_t bytes) noexcept override;
    std::unique_ptr<Stream> make_stream(const char* name) override;
    bool graphs() const override { return true; }

    const CardFacts& facts() const { return facts_; }

  private:
    void* pinned(size_t bytes);   // allocates zeroed host memory that kernels can read at its host address
    void* on_card(size_t bytes);  // allocates device memory, not zeroed
    /// Returns the bytes of host memory that this rank may still pin.
    size_t host_left(const HostMemory& now) const;

    CardFacts facts_;
    int sharers_;                           // ranks on this GPU
    int local_ranks_;                       // ranks of this node
    size_t free_at_start_, host_at_start_;  // bytes available when it was opened: on the GPU, in host memory
    size_t host_granted_;                   // DeviceRequest::host_memory
};

/// Casts to the CUDA backend's device; one of another backend is a bug.
CudaDevice& cuda(Device& device);

}  // namespace trireme
