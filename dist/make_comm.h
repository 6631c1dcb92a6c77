#pragma once
/// Which implementation a run gets.

#include <memory>

#include "dist/comm.h"

namespace trireme {

/// One rank, or no launcher: self, and MPI is neither started nor needed. Several: MPI. What the launcher left in the
/// environment decides (rank_env). Call before starting other threads. Errors: Exit::kUnavailable, kConfig.
std::unique_ptr<Comm> make_comm();

}  // namespace trireme
