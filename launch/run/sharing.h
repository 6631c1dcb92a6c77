#pragma once
/// Description, for the log, of layers that read the keys and values of other layers (layer sharing).

#include <string>

#include "model/checkpoint/config.h"
#include "model/passes.h"

namespace trireme {

/// Describes the layer map, the number of owner layers, and the passes of prompts. Empty if every layer reads its own
/// keys and values.
std::string describe_sharing(const LlamaConfig& config, const Passes& passes);

}  // namespace trireme
