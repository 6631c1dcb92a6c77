#pragma once
/// What a run says of layers that read the keys and values of other layers.

#include <string>

#include "model/config.h"
#include "model/passes.h"

namespace trireme {

/// The map, its owners and how prompts are read; empty where every layer reads its own.
std::string describe_sharing(const LlamaConfig& config, const Passes& passes);

}  // namespace trireme
