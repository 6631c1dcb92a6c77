#pragma once
/// The device that a test of the GPU's half runs on, by the backend it is linked with.

#include <string>

namespace trireme::test {

/// Registered by then: "simt" or "cuda".
std::string gpu_device();

}  // namespace trireme::test
