#pragma once
/// Binding of this process to CPUs: reads and changes it.

#include "launch/run/placement.h"

namespace trireme {

/// Reads the facts that place() requires about this node. Facts missing in /sys or /proc are set to "not known".
NodeCores read_node(const RankEnv& rank);

/// Binds the calling thread, and threads that it starts later, to `cpus`; does nothing if `cpus` is empty. Call it
/// before other threads are started. Returns false if the system refused; the binding is then unchanged.
bool bind_to(const Cpus& cpus);

}  // namespace trireme
