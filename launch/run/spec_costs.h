#pragma once
/// The costs that draft lengths are weighed by (decode/spec_costs.h), as a report holds them.

#include <span>
#include <string>
#include <string_view>

#include "decode/spec_costs.h"

namespace trireme {

/// [{"level": "full", "rows": [1, 2], "ms": [20.5, 21]}, ...]; numbers read back as the same ones.
std::string as_json(const SpecCosts& costs);
/// The `spec_costs` of a report. `levels`: of the chain that they are for. Errors: Exit::kData, naming `what`.
SpecCosts costs_in_report(std::string_view report, std::string_view what, std::span<const std::string> levels);
/// Those of the report that --spec-costs names. Errors: as costs_in_report and read_text_file.
SpecCosts read_spec_costs(const std::string& path, std::span<const std::string> levels);

}  // namespace trireme
