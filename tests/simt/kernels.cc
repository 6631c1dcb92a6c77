#include "tests/simt/kernels.h"

#include "runtime/cpu/device.h"
#include "tests/simt/launcher.h"

namespace trireme::simt {
namespace {

class SimtDevice final : public CpuDevice {
  public:
    using CpuDevice::CpuDevice;
    std::string_view backend() const override { return "simt"; }
};

}  // namespace

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    return std::make_unique<gpu::GpuKernels<Launcher>>(device, Launcher(cpu(stream)), phase, limits);
}

void register_backend() {
    register_device("simt", [](int threads, int local_ranks) -> std::unique_ptr<Device> {
        return std::make_unique<SimtDevice>(threads, local_ranks);
    });
    register_kernels("simt", make_kernels);
}

}  // namespace trireme::simt
