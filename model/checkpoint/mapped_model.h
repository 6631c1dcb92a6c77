#pragma once
/// An ordinary checkpoint read with another layer map: owners keep their K/V weights, those of other layers are not
/// read.

#include <memory>
#include <string_view>

#include "model/checkpoint/weight_source.h"

namespace trireme {

/// `map`: as LayerMap::parse reads it; empty: the model's. Layers with a sliding window see `wider` more tokens.
/// Errors: Exit::kData for a map that does not fit this model, and for owners without K/V weights.
std::unique_ptr<WeightSource> with_layer_map(std::unique_ptr<WeightSource> model, std::string_view map,
                                             int64_t wider = 0);

}  // namespace trireme
