#pragma once
/// Options of the chains that a command builds.

#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// The options with which `generate` would run the mode's chain.
Options options_of(const Options& options, const Mode& mode);
/// The options of each chain that the command builds: one for generate and batch, one per mode for bench, else none.
std::vector<Options> chains_of(Command command, const Options& options);

/// The draft length that the verifier of part `part` requests, as flags set it: a number or GammaController::kAuto.
int64_t fixed_gamma(const Options& chain, size_t part);
/// The number of draft distributions stored for proposals of `part`; 0: the chain lacks it, or it is the n-gram lookup.
int64_t draft_distributions(const Options& chain, Part part);

}  // namespace trireme
