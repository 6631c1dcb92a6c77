#pragma once
/// Selection of the Comm implementations of a run.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "runtime/device.h"
#include "runtime/registry.h"

namespace trireme {

/// Returns SelfComm for one rank, or without a launcher: MPI is not needed then. Several ranks: MpiComm. The launcher's
/// environment decides (rank_env). Call it before starting other threads. Errors: Exit::kUnavailable, kConfig.
std::unique_ptr<Comm> make_comm();

/// Returns the node and Device::place() of every rank. Equal strings mean the same device. A control call.
std::vector<std::string> device_places(Comm& control, const Device& device);

/// Makes the Comm for device data where `control` cannot carry it, for registered devices (runtime/device.h).
using DeviceCommMaker = std::unique_ptr<Comm> (*)(Comm& control, Device& device);
Registry<DeviceCommMaker>& device_comm_makers();

/// Returns null if `control` serves this device. A collective call; `control` must outlive the result.
std::unique_ptr<Comm> make_device_comm(Comm& control, Device& device);

}  // namespace trireme
