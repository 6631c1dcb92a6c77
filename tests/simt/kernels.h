#pragma once
/// The GPU backend's kernels, run on the host.

namespace trireme::simt {

/// From here on open_device("simt") gives a CPU device whose kernels are the GPU's and whose decode steps are graphs:
/// the whole engine runs on them. Any thread may call it, any number of times.
void register_backend();

}  // namespace trireme::simt
