#pragma once
/// CpuDevice: the CPU as a device, for runs without a GPU. Its device memory is apart from its host memory, and streams
/// copy between the two, as on a GPU.

#include <memory>
#include <string>

#include "runtime/device.h"

namespace trireme {

class CpuDevice : public Device {
  public:
    /// `threads`: compute threads of each stream. `local_ranks`: the ranks of this node, which divide its memory.
    explicit CpuDevice(int threads, int local_ranks = 1);

    std::string_view backend() const override { return "cpu"; }
    std::string name() const override;
    size_t memory_total() const override;
    size_t memory_free() const override;
    bool host_reaches_memory() const override { return true; }
    void* allocate(Space space, size_t bytes) override;
    void release(Space space, void* data, size_t bytes) noexcept override;
    std::unique_ptr<Stream> make_stream(const char* name) override;

  private:
    size_t grantable() const;  // bytes of the largest allocation that is possible now

    int threads_, local_ranks_;
    size_t available_at_start_;  // bytes of host memory, to all ranks of the node together
};

}  // namespace trireme
