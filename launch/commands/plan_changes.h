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
    int64_t on_chip = PlanInput::kAuto;
    Retrieval retrieval;
};
using PlanInputFor = std::function<PlanInput(const PlanWish&)>;

/// The most tokens of context, up to the wished ones, with which it fits; 0: none.
int64_t largest_context(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine);

/// Each line is a change after which it fits, the flag first: one of the chunk, the layers on chip, the budget, the
/// context, the ranks, the rest as it is; where neither chunk nor layers nor budget alone do, both of the former.
/// Empty: none of them is enough.
std::vector<std::string> changes_that_fit(const PlanWish& wish, const PlanInputFor& input_for, const Machine& machine,
                                          int64_t most_ranks);

}  // namespace trireme
