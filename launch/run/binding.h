#pragma once
/// Reads where this process may run, and changes it.

#include "launch/run/placement.h"

namespace trireme {

/// Reads what place() needs to know of this node. What /sys or /proc do not tell is set to "not known".
NodeCores read_node(const RankEnv& rank);

/// Binds the calling thread, and threads that it starts later, to `cpus`; if empty, does nothing. To be called before
/// other threads are started. Returns false if the system refused: the binding is then unchanged.
bool bind_to(const Cpus& cpus);

}  // namespace trireme
