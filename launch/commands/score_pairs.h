#pragma once
/// Command `score --data`: log probabilities of continuations given their contexts, by the rules of
/// lm-evaluation-harness.

#include "launch/commands/commands.h"

namespace trireme {

/// Writes a line {"index", "logprob", "greedy", "tokens"} for each line {"context", "continuation"} of --data, in the
/// order of --shuffle. "tokens" counts those of the continuation; "greedy": each is the most likely one. From a store
/// of ids it takes each text, whose tokens after the first are the continuation. A pair of texts longer than the
/// context (-c) loses its first tokens, and its line has "truncated": true. A pair that cannot be scored has "error"
/// instead; with --strict the run ends. Lines go to --output-path, and a summary to stdout; without that flag, lines go
/// to stdout. Called by run_score(). Errors: Exit::kData if no pair can be scored; as Engine and Engine::load.
void run_score_pairs(const Start& start, const RankGroup& rank_group);

}  // namespace trireme
