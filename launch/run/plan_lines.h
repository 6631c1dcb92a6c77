#pragma once
/// Text lines about a memory plan: its bytes by purpose, and the memory of the machine. Printed by `trireme plan`, and
/// logged by -v.

#include <string>
#include <vector>

#include "offload/plan/plan.h"

namespace trireme {

/// The model's layer that this owner is: the numbers differ if some layers own no keys and values.
LayerIndex layer_of(const PlanInput& input, OwnerIndex owner);

/// Lists the streamed layers whose keys and values the device holds from first to last reader, and those that cross the
/// link more than once per forward. Empty: there are none.
std::vector<std::string> reader_lines(const PlanInput& input, const Plan& plan);

/// Returns the table of device and host memory by purpose in GiB, and reader_lines().

std::vector<std::string> plan_lines(const PlanInput& input, const Plan& plan, const Machine& machine);

}  // namespace trireme
