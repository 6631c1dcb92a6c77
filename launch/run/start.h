#pragma once
/// Start: what a command is given: the invocation, and this rank's threads and cores.

#include <string>
#include <vector>

#include "launch/flags/command_line.h"

namespace trireme {

/// tokenize, plan and convert bind no cores: the fields from `threads` on then have these defaults.
struct Start {
    Invocation call;
    bool seed_drawn = false;                // call.options.seed is not the user's choice
    std::vector<std::string> command_line;  // without the program's name; for reports
    int threads = 1;                        // of this rank
    int local_rank = 0, local_ranks = 1;    // ranks of this node, including this one: they divide its memory and GPUs
    std::string placement;                  // for the log: this rank's CPU cores, and the reason (placement.h)
};

}  // namespace trireme
