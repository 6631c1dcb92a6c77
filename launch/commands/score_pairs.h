#pragma once
/// score --data: how likely continuations of contexts are, as evaluation harnesses ask for it.

#include "launch/commands/commands.h"

namespace trireme {

/// A line {"index", "logprob", "greedy", "tokens"} for each line {"context", "continuation"} of --data, or for each
/// text of a store, all of which but the first token is then continuation; in the order that --shuffle gives them.
/// Errors: Exit::kData for a line that is no such pair, kConfig for pairs longer than the context.
void run_score_pairs(const Start& start, const Crew& crew);

}  // namespace trireme
