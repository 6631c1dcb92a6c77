#pragma once
/// Text lines about a plan: its bytes, and the memory of the machine.

#include <string>
#include <vector>

#include "offload/plan.h"

namespace trireme {

/// The layer of an owner.
LayerIndex layer_of(const PlanInput& input, OwnerIndex owner);

/// Lists the streamed layers whose keys and values are held for several readers, and those that cross the link more
/// than once a forward; empty: there are none.
std::vector<std::string> reader_lines(const PlanInput& input, const Plan& plan);

std::vector<std::string> plan_lines(const PlanInput& input, const Plan& plan, const Machine& machine);

}  // namespace trireme
