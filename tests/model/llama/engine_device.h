#pragma once
/// The device that an engine test runs on, by the file it is linked with: cpu_device.cc, simt_device.cc,
/// cuda_device.cc.

#include <string>

namespace trireme::test {

/// Registered by then.
std::string engine_device();

}  // namespace trireme::test
