#include "tests/simt/kernels.h"

#include "tests/simt/launcher.h"

namespace trireme::simt {

std::unique_ptr<Kernels> make_kernels(Device& device, CpuStream& stream, Phase phase, const KernelLimits& limits) {
    return std::make_unique<gpu::GpuKernels<Launcher>>(device, Launcher(stream), phase, limits);
}

}  // namespace trireme::simt
