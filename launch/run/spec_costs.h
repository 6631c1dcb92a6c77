#pragma once
/// The costs that draft lengths are weighed by (decode/spec_costs.h), as a report holds them.

#include <span>
#include <string>

#include "decode/spec_costs.h"

namespace trireme {

/// [{"level": "full", "rows": [1, 2], "ms": [20.5, 21]}, ...]; numbers read back as the same ones.
std::string as_json(const SpecCosts& costs);
/// Of such a text's values. `what` names the file. Errors: Exit::kData.
SpecCosts costs_in(const nlohmann::json& levels, std::string_view what);
/// Those of the report that --spec-costs names. `levels`: of the chain that they are for. Errors: as read_text_file;
/// Exit::kData.
SpecCosts read_spec_costs(const std::string& path, std::span<const std::string> levels);
/// `costs` become rank 0's. A control call.
void share(SpecCosts& costs, Comm& comm);

}  // namespace trireme
