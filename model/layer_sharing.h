#pragma once
/// What checkpoints whose layers share keys and values say about it: LCKV's and those of its older code (arXiv
/// 2405.10637, 2410.14442; reference lckv 1.3).

#include <string_view>

#include "model/config.h"
#include "model/files/keys.h"

namespace trireme {

/// Whether checkpoints of this 'model_type' have a layer map.
bool shares_layers(std::string_view model_type);

/// Sets the config's layer map, passes, no_diagonal and sliding_window; `config` knows its arch and layers. How
/// 'layer_types' is read depends on the arch alone: a string may be valid in both notations. Errors: Exit::kData.
void read_sharing(LlamaConfig& config, const Keys& keys, std::string_view what);

/// Another map for a checkpoint (--layer-map): owners keep their weights. Where the map is not the checkpoint's own,
/// what it says of passes and of the diagonal does not hold for it: 9 passes, and tokens see themselves. Errors:
/// Exit::kData.
void set_layer_map(LlamaConfig& config, std::string_view map, std::string_view what);

}  // namespace trireme
