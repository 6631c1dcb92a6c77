#pragma once
/// A checkpoint with another number of tokens, for a draft whose vocabulary has other padding than its target's.

#include <memory>

#include "model/checkpoint/weight_source.h"

namespace trireme {

/// Returns the model with a vocabulary of `vocab` tokens. Tokens that it does not have are like its token 0 (in most
/// vocabularies one that is never generated): a draft may propose them, and its target rejects them.
std::unique_ptr<WeightSource> with_vocabulary(std::unique_ptr<WeightSource> model, int64_t vocab);

}  // namespace trireme
