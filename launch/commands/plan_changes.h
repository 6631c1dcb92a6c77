#pragma once
/// Search for changes that make a run fit in memory.

#include <functional>
#include <string>
#include <vector>

#include "offload/plan.h"

namespace trireme {

/// A run as its flags describe it.
struct PlanWish {
    int64_t context = 0;  // tokens
    int64_t ranks = 1;
    int64_t texts = 1;  // decoded in parallel
    int64_t on_chip = PlanInput::kAuto;
    RetrievalShape retrieval;
};
using PlanInputFor = std::function<PlanInput(const PlanWish&)>;

/// The largest context, up to wish.context tokens, with which the run fits; 0: none.
int64_t largest_context(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine);

/// The most parallel sequences, up to `at_most`, with which the run fits; 0: none.
int64_t most_texts(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine, int64_t at_most);

/// Returns changes with which the run fits, one a line, the flag first. A line changes one of chunk, layers on chip,
/// budget, parallel sequences, context and ranks. If none of the first three suffices alone, a line changes chunk and
/// layers together. Empty: no change suffices.
std::vector<std::string> changes_that_fit(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine,
                                          int64_t most_ranks);

}  // namespace trireme
