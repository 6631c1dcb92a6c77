#pragma once
/// The environment variables that are no flag's twins, read once. docs/using.md lists them, and those of scripts.

namespace trireme {

struct Env {
    double timeout_s = 300;  // TRIREME_TIMEOUT_S: longest silence of a stream or a peer
    bool log_all = false;    // TRIREME_LOG=all: every rank logs, not rank 0 alone
    bool shm_sums = true;    // TRIREME_SHM_SUMS=0: ranks of one machine add by messages, too
    bool no_color = false;   // NO_COLOR
};

/// Errors: Exit::kConfig, naming the variable.
const Env& env();

}  // namespace trireme
