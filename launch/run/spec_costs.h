#pragma once
/// Cost tables of draft lengths (decode/spec_costs.h), as a report contains them.

#include <span>
#include <string>

#include "decode/spec_costs.h"

namespace trireme {

/// [{"level": "full", "rows": [1, 2], "ms": [20.5, 21]}, ...]; numbers read back as the same ones.
std::string as_json(const SpecCosts& costs);
/// Reads the costs from the JSON of as_json(). `what` names the file. Errors: Exit::kData.
SpecCosts costs_in(const nlohmann::json& levels, std::string_view what);
/// Reads the costs in the report that --spec-costs names. `levels` are those of the chain that uses them. Errors: as
/// read_text_file; Exit::kData.
SpecCosts read_spec_costs(const std::string& path, std::span<const std::string> levels);
/// Replaces `costs` by rank 0's. A control call.
void share(SpecCosts& costs, Comm& comm);

}  // namespace trireme
