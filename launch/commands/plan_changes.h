#pragma once
/// Search for changes of flags that make a run fit in memory. Used by `trireme plan` if the run does not fit.

#include <functional>
#include <string>
#include <vector>

#include "offload/plan/plan.h"

namespace trireme {

/// The properties of a run that the search may change.
struct PlanWish {
    int64_t context = 0;  // tokens
    int64_t ranks = 1;
    int64_t texts = 1;                   // sequences decoded in parallel
    int64_t on_chip = PlanInput::kAuto;  // as PlanInput::on_chip
    RetrievalShape retrieval;            // budget 0: nothing is retrieved
};
/// Returns the plan's input for a run with these properties.
using PlanInputFor = std::function<PlanInput(const PlanWish&)>;

/// The largest context, in whole tiles up to wish.context tokens, with which the run fits; 0: none.
int64_t largest_context(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine);

/// The most parallel sequences, up to `at_most`, with which the run fits; 0: none.
int64_t most_texts(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine, int64_t at_most);

/// Returns changes with which the run fits, one per line, the flag first. A line changes one of retrieval chunk, layers
/// on chip, retrieval budget, parallel sequences, context and ranks (doubled, up to `most_ranks`). If none of the first
/// three suffices alone, a line may change chunk and layers together. Empty: no change suffices.
std::vector<std::string> changes_that_fit(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine,
                                          int64_t most_ranks);

}  // namespace trireme
