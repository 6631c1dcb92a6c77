#pragma once
/// make_cuda_kernels(): the Kernels of a CUDA GPU.

#include <memory>

#include "kernels/kernels.h"

namespace trireme {

/// Makes the Kernels of a stream. `device` and `stream` must be the CUDA backend's, and outlive the object. Errors:
/// Exit::kUnavailable when cuBLASLt does not start (prefill).
std::unique_ptr<Kernels> make_cuda_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme
