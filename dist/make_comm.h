#pragma once
/// make_comm(), make_device_comm(): select the Comm implementations of a run: one for control calls, and one for device
/// calls where the first cannot carry them.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "runtime/device.h"
#include "runtime/registry.h"

namespace trireme {

/// Returns SelfComm for one rank, or without a launcher: MPI is not needed then. Several ranks: MpiComm. The launcher's
/// environment decides (rank_env). Call it before starting other threads. Errors: Exit::kUnavailable, kConfig, kUsage.
std::unique_ptr<Comm> make_comm();

/// Returns the node and Device::place() of every rank, in rank order. Equal strings mean the same device. A control
/// call.
std::vector<std::string> device_places(Comm& control, const Device& device);

/// Makes the Comm for device calls on a registered backend (runtime/device.h), by its name: make_cuda_comm(). Null: a
/// single rank.
using DeviceCommMaker = std::unique_ptr<Comm> (*)(Comm& control, Device& device);
Registry<DeviceCommMaker>& device_comm_makers();

/// Returns the Comm for device calls, or null if `control` carries them: on the CPU, or with a single rank. A
/// collective call; both arguments must outlive the result.
std::unique_ptr<Comm> make_device_comm(Comm& control, Device& device);

}  // namespace trireme
