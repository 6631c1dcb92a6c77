#pragma once
/// Layer sharing in the configs of checkpoints: LCKV's and those of its older code (arXiv 2405.10637, 2410.14442;
/// reference lckv 1.3).

#include <string_view>

#include "model/checkpoint/config.h"
#include "model/files/keys.h"

namespace trireme {

/// Sets the layer map, passes, no_diagonal and sliding_window of a config whose family has a layer map; n_layers must
/// be set. Only the family decides how 'layer_types' is read: a string may be valid in both notations. Errors:
/// Exit::kData.
void read_sharing(LlamaConfig& config, const Keys& keys, std::string_view what);

/// Replaces the checkpoint's map (--layer-map); owners keep their weights. If the map differs, the checkpoint's passes
/// and diagonal do not apply to it: it has 9 passes, and tokens see themselves. Errors: Exit::kData.
void set_layer_map(LlamaConfig& config, std::string_view map, std::string_view what);

}  // namespace trireme
