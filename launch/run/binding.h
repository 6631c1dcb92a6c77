#pragma once
/// Reads where this process may run, and changes it.

#include "launch/run/placement.h"

namespace trireme {

/// What place() wants to know of this node. Where /sys or /proc cannot be read, the answer is "not known".
NodeCores read_node(const RankEnv& rank);

/// Binds the calling thread and the threads it will start. Call before others run. Nothing to do for no cpus.
/// false: the system refused, and the binding is as it was.
bool bind_to(const Cpus& cpus);

}  // namespace trireme
