#pragma once
/// Thread ranks: ranks as threads of one process, for tests and for sanitizers, which do not understand MPI.

#include <memory>
#include <vector>

#include "dist/comm.h"
#include "runtime/env.h"

namespace trireme {

/// Makes `size` connected ranks, in rank order; each is used by its own thread. A rank whose Comm is destroyed has
/// left: peers that wait for it fail with Exit::kUnavailable. abort(code) throws Error(code) on the calling rank, and
/// from every wait of the others.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int size, double timeout_s = env().timeout_s);

}  // namespace trireme
