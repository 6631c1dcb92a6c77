#pragma once
/// Ranks as threads: what a test needs of mpirun.

#include <functional>

#include "dist/comm.h"

namespace trireme::test {

/// body(comm) on `size` ranks at once, each a thread. A rank that throws ends the others as `abort` would; what it
/// threw, first in time, is thrown again here. A rank that returns early (a failed ASSERT) fails who waits for it.
void run_ranks(int size, const std::function<void(Comm&)>& body);

}  // namespace trireme::test
