#pragma once
/// make_cuda_kernels(), make_cuda_tile_coder(): the Kernels and the TileCoder of a CUDA GPU.

#include <memory>

#include "kernels/kernels.h"
#include "kernels/tile_coder.h"

namespace trireme {

/// Makes the Kernels of a stream. `device` and `stream` must be the CUDA backend's, and outlive the object. Errors:
/// Exit::kUnavailable when cuBLASLt does not start (prefill).
std::unique_ptr<Kernels> make_cuda_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);
std::unique_ptr<TileCoder> make_cuda_tile_coder(Device& device, Stream& stream, const KvLayout& layout);

}  // namespace trireme
