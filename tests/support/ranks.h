#pragma once
/// Ranks as threads, in place of mpirun.

#include <functional>

#include "dist/comm.h"

namespace trireme::test {

/// Runs body(comm) on `size` ranks at once, each a thread. A rank that throws ends the others like abort(), and the
/// first exception is thrown again here. If a rank returns early (a failed ASSERT), ranks that wait for it fail.
void run_ranks(int size, const std::function<void(Comm&)>& body);

}  // namespace trireme::test
