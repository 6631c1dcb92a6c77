#pragma once
/// Binding of this process to CPU cores: reads and changes it. main() uses it with place() (placement.h).

#include "launch/run/placement.h"

namespace trireme {

/// Reads the facts about this node that place() requires. Facts that the system does not report are set to "not known".
/// Errors: Exit::kOs if hwloc fails.
NodeCores read_node(const RankEnv& rank);

/// Binds the calling thread, and threads that it starts later, to `cpus`; does nothing if `cpus` is empty. Call it
/// before other threads are started. Returns false if the system refused; the binding is then unchanged.
bool bind_to(const Cpus& cpus);

}  // namespace trireme
