#pragma once
/// A checkpoint with another number of tokens: a draft whose vocabulary was padded otherwise than its target's.

#include <memory>

#include "model/files/weight_source.h"

namespace trireme {

/// The model with the first `vocab` tokens of its vocabulary. Tokens that it does not have are like its token 0 (in
/// most vocabularies one that is never said): a draft may propose them, and its target refuses them.
std::unique_ptr<WeightSource> with_vocabulary(std::unique_ptr<WeightSource> model, int64_t vocab);

}  // namespace trireme
