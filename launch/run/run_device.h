#pragma once
/// Device that a rank computes on: opens the one that --device names.

#include <memory>
#include <string>

#include "launch/run/rank_group.h"
#include "launch/run/start.h"
#include "runtime/device.h"

namespace trireme {

struct OpenedDevice {
    std::unique_ptr<Device> device;
    std::string line;  // for the log; may be empty
};

/// Opens this rank's device; --device auto: a GPU if every rank has one that works, else the CPU on all ranks. Passes
/// the number of ranks that share the device to it. All ranks pass, or all throw: Exit::kUnavailable or kConfig, naming
/// the flag. Makes control calls.
OpenedDevice open_run_device(const Start& start, const RankGroup& rank_group);

}  // namespace trireme
