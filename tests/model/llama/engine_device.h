#pragma once
/// The device that an engine test runs on, by the file it is linked with: cpu_device.cc, simt_device.cc,
/// cuda_device.cc.

#include <string>

namespace trireme::test {

/// Registered by then.
std::string engine_device();
/// Ranks may be threads of this process. Not on a card: a rank's host call waits for another rank's there, and the
/// driver may run one after the other. tests/gpu.sh runs several ranks as processes.
bool ranks_as_threads();

}  // namespace trireme::test
