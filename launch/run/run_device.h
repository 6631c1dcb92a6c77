#pragma once
/// The device that a rank of a run computes on.

#include <memory>
#include <string>

#include "launch/commands/commands.h"
#include "launch/run/crew.h"
#include "runtime/device.h"

namespace trireme {

struct OpenedDevice {
    std::unique_ptr<Device> device;
    std::string line;  // for the log; empty: nothing to say
};

/// Opens what --device names; auto: a card if every rank has one that works, else the CPU. All ranks pass, or all
/// throw: Exit::kUnavailable or kConfig, naming the flag. Makes control calls.
OpenedDevice open_run_device(const Start& start, const Crew& crew);

}  // namespace trireme
