#pragma once
/// An ordinary checkpoint read with another layer map: its owners keep their keys' and values' weights, the others'
/// are not read.

#include <memory>
#include <string_view>

#include "model/files/weight_source.h"

namespace trireme {

/// `map`: as LayerMap::parse reads it; empty: the model's. Layers with a sliding window see `wider` tokens more.
/// Errors: Exit::kData for text that is no map of this model, and for owners that have no such weights.
std::unique_ptr<WeightSource> with_layer_map(std::unique_ptr<WeightSource> model, std::string_view map,
                                             int64_t wider = 0);

}  // namespace trireme
