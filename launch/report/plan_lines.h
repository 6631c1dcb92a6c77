#pragma once
/// A plan's bytes as lines for people, with what the machine has.

#include <string>
#include <vector>

#include "offload/plan.h"

namespace trireme {

std::vector<std::string> plan_lines(const PlanInput& input, const Plan& plan, const Machine& machine);

}  // namespace trireme
