#pragma once
/// Description of layers that read the keys and values of other layers.

#include <string>

#include "model/config.h"
#include "model/passes.h"

namespace trireme {

/// Describes the map, its owners and how prompts are read; empty if every layer reads its own keys and values.
std::string describe_sharing(const LlamaConfig& config, const Passes& passes);

}  // namespace trireme
