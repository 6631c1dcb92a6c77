#include "kernels/kernels.h"

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cuda/scratch.h"

namespace trireme {

Registry<KernelsMaker>& kernels_makers() {
    static Registry<KernelsMaker> makers;
    return makers;
}

size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads) {
    if (backend == "cpu") return cpu_scratch(phase, limits, threads);
    return gpu::scratch_bytes(phase, limits) + (phase == Phase::kPrefill ? gpu::kMultiplyWorkspace : 0);
}

bool multiplies(std::string_view backend, ActivationType as) {
    if (backend != "cpu") return as == ActivationType::kF32 || as == ActivationType::kF16;
    return interleaves(as) ? byte_dots() != ByteDots::kNone : as != ActivationType::kF16;
}

ActivationType fastest_activations(std::string_view backend, bool interleaved) {
    if (backend != "cpu") return ActivationType::kF16;
    if (interleaved && byte_dots() != ByteDots::kNone) return ActivationType::kQ16;
    return bf16_dots() ? ActivationType::kBF16 : ActivationType::kF32;
}

bool multiplies_bf16_faster(std::string_view backend) {
    return backend == "cpu" && bf16_dots();
}

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    if (device.backend() == "cpu") return std::make_unique<CpuKernels>(device, cpu(stream), phase, limits);
    const KernelsMaker maker = kernels_makers().find(device.backend());
    check(maker != nullptr, "make_kernels: no kernels for device {}", device.name());
    return maker(device, stream, phase, limits);
}

}  // namespace trireme
