#pragma once
/// The GPU backend's kernels, run on the host.

#include <memory>

#include "kernels/kernels.h"

namespace trireme::simt {

/// On the memory and a stream of a CPU device, which must outlive the object.
std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

/// From here on open_device("simt") gives a CPU device whose kernels are the GPU's and whose decode steps are graphs:
/// the whole engine runs on them.
void register_backend();

}  // namespace trireme::simt
