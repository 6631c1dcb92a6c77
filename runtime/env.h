#pragma once
/// Env: settings of a process that are environment variables and no flags. docs/reference/environment.md lists all
/// variables.

#include <optional>

namespace trireme {

struct Env {
    double timeout_s = 300;  // TRIREME_TIMEOUT_S: longest time without progress of a stream or a peer
    bool log_all = false;    // TRIREME_LOG=all: every rank logs, not only rank 0
    // TRIREME_SHM_SUMS=0: ranks of one machine add by messages, not in shared memory. 1: GPUs add all short vectors in
    // it, without measuring which way is faster.
    std::optional<bool> shm_sums;
    bool dependent_launch = false;  // TRIREME_PDL=1: programmatic dependent launch (runtime/cuda/launch_kernel.h)
};

/// Returns the settings, which the first call reads. Errors of that call: Exit::kConfig, naming the variable.
const Env& env();

/// Whether NO_COLOR is set and not empty: no colours in the log. It cannot fail, so the error line of a bad variable
/// has the same form on a terminal.
bool no_color();

}  // namespace trireme
