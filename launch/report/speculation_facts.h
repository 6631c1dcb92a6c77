#pragma once
/// Statistics of a verifying level as JSON, for reports, bench tables and records.

#include <string>

#include <nlohmann/json.hpp>

#include "decode/speculate.h"

namespace trireme {

/// Returns an object with counts, rates and times (docs/reference/report-json.md). `chain`: the level's name,
/// "draft+full". "alpha" is null if it is not known.
nlohmann::ordered_json speculation_facts(const std::string& chain, const SpeculationStats& stats);

}  // namespace trireme
