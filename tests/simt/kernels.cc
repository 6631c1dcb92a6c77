#include "tests/simt/kernels.h"

#include "runtime/cpu/device.h"
#include "tests/simt/launcher.h"

namespace trireme::simt {
namespace {

class SimtDevice final : public CpuDevice {
  public:
    using CpuDevice::CpuDevice;
    std::string_view backend() const override { return "simt"; }
    bool graphs() const override { return true; }
};

}  // namespace

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    return std::make_unique<gpu::GpuKernels<Launcher>>(device, Launcher(cpu(stream)), phase, limits);
}

void register_backend() {
    device_makers().add("simt", [](const DeviceRequest& r) -> std::unique_ptr<Device> {
        return std::make_unique<SimtDevice>(r.threads, r.local_ranks);
    });
    kernels_makers().add("simt", make_kernels);
}

}  // namespace trireme::simt
