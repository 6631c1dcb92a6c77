#pragma once
/// The device that an engine test runs on, by the file it is linked with: cpu_device.cc, simt_device.cc,
/// cuda_device.cc.

#include <string>

namespace trireme::test {

/// The device's name; its backend is registered when this returns.
std::string engine_device();
/// True if ranks may be threads of this process. They may not on a GPU: there a rank's host call waits for another
/// rank's, and the driver may run one after the other. tests/gpu.sh runs several ranks as processes.
bool ranks_as_threads();

}  // namespace trireme::test
