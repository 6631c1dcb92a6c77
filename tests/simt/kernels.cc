#include "tests/simt/kernels.h"

#include <cstring>

#include "kernels/cuda/gpu_tile_coder.h"
#include "runtime/cpu/device.h"
#include "tests/simt/launcher.h"

namespace trireme::simt {
namespace {

class SimtDevice final : public CpuDevice {
  public:
    using CpuDevice::CpuDevice;
    std::string_view backend() const override { return "simt"; }
    bool graphs() const override { return true; }
    bool host_reaches_memory() const override { return false; }  // as on a GPU: weights pass through pinned buffers
    /// Device memory begins as NaN: a GPU's memory is not zeros either.
    void* allocate(Space space, size_t bytes) override {
        void* data = CpuDevice::allocate(space, bytes);
        if (space == Space::kDevice) std::memset(data, 0xff, bytes);
        return data;
    }
};

std::unique_ptr<Device> make_device(const DeviceRequest& request) {
    return std::make_unique<SimtDevice>(request.threads, request.local_ranks);
}

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    return std::make_unique<gpu::GpuKernels<Launcher>>(device, Launcher(cpu(stream)), phase, limits);
}

std::unique_ptr<TileCoder> make_coder(Device&, Stream& stream, const KvLayout& layout) {
    return std::make_unique<gpu::GpuTileCoder<Launcher>>(Launcher(cpu(stream)), layout);
}

}  // namespace

void register_backend() {
    [[maybe_unused]] static const bool once = [] {
        device_makers().add("simt", make_device);
        kernels_makers().add("simt", make_kernels);
        tile_coder_makers().add("simt", make_coder);
        return true;
    }();
}

}  // namespace trireme::simt
