#pragma once
/// What a bench's modes stand for.

#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// Those with which generate would run the mode's chain.
Options options_of(const Options& options, const Mode& mode);
/// Those of each chain that the command makes: generate's one, one for each mode of bench, else none.
std::vector<Options> chains_of(Command command, const Options& options);

}  // namespace trireme
