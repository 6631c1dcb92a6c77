#pragma once
/// Facts about a verifying level, for reports and tables.

#include <string>

#include <nlohmann/json.hpp>

#include "decode/speculate.h"

namespace trireme {

/// `chain`: "draft+full". Figures that do not apply are null.
nlohmann::ordered_json speculation_facts(const std::string& chain, const SpeculationStats& stats);

}  // namespace trireme
