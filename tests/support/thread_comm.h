#pragma once
/// make_thread_comms(): ranks as threads of one process, for tests and for sanitizers, which do not understand MPI.

#include <memory>
#include <vector>

#include "dist/comm.h"
#include "runtime/env.h"

namespace trireme {

/// Makes `size` connected Comms, in rank order; each is used by its own thread. A wait longer than `timeout_s` fails
/// with Exit::kUnavailable. So do waits for a rank whose Comm was destroyed. abort(code) throws Error(code) on the
/// calling rank, and from every wait of the others.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int size, double timeout_s = env().timeout_s);

}  // namespace trireme
