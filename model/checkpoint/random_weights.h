#pragma once
/// RandomWeights: weights for a config without any (convert --random). Matrices are normal with a standard deviation of
/// 0.02, transformers' default; norms are 1, biases 0. Such a model has the memory and the speed of a trained one.

#include <cstdint>
#include <memory>

#include "model/checkpoint/weight_source.h"

namespace trireme {

/// An element depends on the seed, the tensor's name, its row and its column only. `config` is that of the model.
std::unique_ptr<WeightSource> random_weights(const LlamaConfig& config, uint64_t seed);

}  // namespace trireme
