#pragma once
/// Options of one chain each, derived from the options of a run: bench has a chain for each mode.

#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// The options with which `generate` would run the mode: its chain or eviction policy, and its KV placement.
Options options_of(const Options& options, const Mode& mode);
/// The options of each chain that the command builds: one per mode for bench, one for generate and batch, else none. A
/// chain may be empty (no speculation). batch's has n_predict -1, because each request has its own number.
std::vector<Options> chains_of(Command command, const Options& options);

/// The draft length, set by flags, of proposals that chain.spec.parts[part] makes: a number of tokens, or
/// GammaController::kAuto. It is --gamma for the last part, whose proposals the full model verifies, else
/// --gamma-inner.
int64_t fixed_gamma(const Options& chain, size_t part);
/// The most tokens of a proposal of `part`, for which draft distributions are stored. 0: the chain lacks the part, or
/// it is the n-gram lookup, which has no distributions.
int64_t draft_distributions(const Options& chain, Part part);

}  // namespace trireme
