#pragma once
/// What reports and tables say of a level that checks tokens.

#include <string>

#include <nlohmann/json.hpp>

#include "decode/speculate.h"

namespace trireme {

/// `chain`: "draft+full". What means nothing here is null.
nlohmann::ordered_json speculation_facts(const std::string& chain, const SpeculationStats& stats);

}  // namespace trireme
