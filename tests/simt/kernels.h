#pragma once
/// The GPU backend's kernels, run on the host.

namespace trireme::simt {

/// After this call open_device("simt") returns a CPU device with the GPU's kernels, whose decode steps are graphs: the
/// whole engine runs on them. Any thread may call it, any number of times.
void register_backend();

}  // namespace trireme::simt
