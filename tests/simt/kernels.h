#pragma once
/// The GPU backend's kernels, run on the host.

#include <memory>

#include "kernels/kernels.h"
#include "runtime/cpu/stream.h"

namespace trireme::simt {

/// On the memory of a CPU device. `device` must outlive the object.
std::unique_ptr<Kernels> make_kernels(Device& device, CpuStream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme::simt
