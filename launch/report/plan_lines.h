#pragma once
/// A plan's bytes as lines for people, with what the machine has.

#include <string>
#include <vector>

#include "offload/plan.h"

namespace trireme {

/// The layer that an owner is.
LayerIndex layer_of(const PlanInput& input, OwnerIndex owner);

/// What streamed layers' keys and values do beside crossing the link once a forward: those that are held for several
/// readers, and those that cross it more often; empty: nothing.
std::vector<std::string> reader_lines(const PlanInput& input, const Plan& plan);

std::vector<std::string> plan_lines(const PlanInput& input, const Plan& plan, const Machine& machine);

}  // namespace trireme
