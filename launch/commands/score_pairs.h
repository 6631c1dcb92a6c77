#pragma once
/// score --data: how likely continuations of contexts are, by the rules of lm-evaluation-harness.

#include "launch/commands/commands.h"

namespace trireme {

/// A line {"index", "logprob", "greedy", "tokens"} for each line {"context", "continuation"} of --data, or for each
/// text of a store, all of which but the first token is then continuation; in the order that --shuffle gives them. A
/// pair longer than the context loses its first tokens, and its line has "truncated": true. One that cannot be scored
/// has "error" instead; with --strict the run ends. Errors: Exit::kData where no pair can be scored.
void run_score_pairs(const Start& start, const Crew& crew);

}  // namespace trireme
