#pragma once
/// Every environment variable that is not a flag's twin, read once and listed in launch/README.md.

#include <string>

namespace trireme {

struct Env {
    double timeout_s = 300;  // TRIREME_TIMEOUT_S: longest silence of a stream or a peer
    bool log_all = false;    // TRIREME_LOG=all: every rank logs, not rank 0 alone
    bool no_color = false;   // NO_COLOR
    std::string cache_dir;   // TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else HOME/.cache/trireme
};

/// Errors: Exit::kConfig, naming the variable.
const Env& env();

}  // namespace trireme
