#pragma once
/// Cost tables that determine draft lengths (decode/spec_costs.h) as JSON. Reports and snapshots contain them, and
/// --spec-costs reads a report's.

#include <span>
#include <string>

#include "decode/spec_costs.h"

namespace trireme {

/// [{"level": "full", "rows": [1, 2], "ms": [20.5, 21]}, ...]; numbers read back as the same ones.
std::string as_json(const SpecCosts& costs);
/// Reads the costs from the JSON of as_json(). `what` names the file in messages. Errors: Exit::kData.
SpecCosts costs_in(const nlohmann::json& levels, std::string_view what);
/// Reads the costs in the report `path`, which --spec-costs names. `levels`: level_names() (chain.h) of the chain that
/// uses them, which the report's must equal. Errors: as read_text_file; Exit::kData.
SpecCosts read_spec_costs(const std::string& path, std::span<const std::string> levels);
/// Replaces `costs` by rank 0's on every rank. A control call.
void share(SpecCosts& costs, Comm& comm);

}  // namespace trireme
