#pragma once
/// What a bench's modes stand for.

#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// Those with which generate would run the mode's chain.
Options options_of(const Options& options, const Mode& mode);
/// Those of each chain that the command makes: generate's and batch's one, one for each mode of bench, else none.
std::vector<Options> chains_of(Command command, const Options& options);

/// Tokens that whoever checks part `part` of the chain asks it for, as flags say it: a number or DraftLength::kAuto.
int64_t asked_length(const Options& chain, size_t part);
/// Laws that the chain keeps of what `part` proposes; 0: it has no such part, or that has no laws.
int64_t held_laws(const Options& chain, Part part);

}  // namespace trireme
