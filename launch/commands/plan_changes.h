#pragma once
/// What to change about a run that does not fit.

#include <functional>
#include <string>
#include <vector>

#include "offload/plan.h"

namespace trireme {

/// A run as its flags describe it.
struct PlanWish {
    int64_t context = 0;  // tokens
    int64_t ranks = 1;
    int64_t texts = 1;  // side by side
    int64_t on_chip = PlanInput::kAuto;
    RetrievalShape retrieval;
};
using PlanInputFor = std::function<PlanInput(const PlanWish&)>;

/// The most tokens of context, up to wish.context, with which the run fits; 0: none.
int64_t largest_context(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine);

/// The most texts side by side, up to `at_most`, with which the run fits; 0: none.
int64_t most_texts(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine, int64_t at_most);

/// Changes after which the run fits, a line each, the flag first. A line changes the chunk, the layers on chip, the
/// budget, the texts side by side, the context or the ranks, and nothing else; if none of the first three is enough
/// alone, a line changes chunk and layers together. Empty: no change is enough.
std::vector<std::string> changes_that_fit(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine,
                                          int64_t most_ranks);

}  // namespace trireme
