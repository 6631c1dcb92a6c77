#pragma once
/// Command `score --data`: log probabilities of continuations, by the rules of lm-evaluation-harness.

#include "launch/commands/commands.h"

namespace trireme {

/// Writes a line {"index", "logprob", "greedy", "tokens"} for each line {"context", "continuation"} of --data. From a
/// store it takes each text, whose tokens after the first are the continuation. Lines have the order of --shuffle. A
/// pair longer than the context loses its first tokens, and its line has "truncated": true. A pair that cannot be
/// scored has "error" instead; with --strict the run ends. Errors: Exit::kData if no pair can be scored.
void run_score_pairs(const Start& start, const RankGroup& rank_group);

}  // namespace trireme
