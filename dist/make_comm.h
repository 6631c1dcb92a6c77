#pragma once
/// Which implementation a run gets.

#include <memory>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "runtime/device.h"
#include "runtime/registry.h"

namespace trireme {

/// One rank, or no launcher: self, and MPI is neither started nor needed. Several: MPI. What the launcher left in the
/// environment decides (rank_env). Call before starting other threads. Errors: Exit::kUnavailable, kConfig.
std::unique_ptr<Comm> make_comm();

/// By rank: its node and where its device is there (Device::place). The same string: the same device. A control call.
std::vector<std::string> device_places(Comm& control, const Device& device);

/// What device data goes through where `control` cannot carry it, for registered devices (runtime/device.h).
using DeviceCommMaker = std::unique_ptr<Comm> (*)(Comm& control, Device& device);
Registry<DeviceCommMaker>& device_comm_makers();

/// Null: `control` serves this device. A collective call; `control` must outlive what it gives.
std::unique_ptr<Comm> make_device_comm(Comm& control, Device& device);

}  // namespace trireme
