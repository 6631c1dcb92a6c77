#pragma once
/// Kernels of a CUDA GPU.

#include <memory>

#include "kernels/kernels.h"

namespace trireme {

/// `device` and `stream` must be the CUDA backend's.
std::unique_ptr<Kernels> make_cuda_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme
