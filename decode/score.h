#pragma once
/// How likely a model finds a text.

#include <cstdint>
#include <vector>

#include "model/level.h"

namespace trireme {

/// Natural-log probabilities of ids[1..] given what precedes them.
struct Score {
    std::vector<double> logprobs;  // one fewer than ids
    double perplexity = 0;
};

/// Sequence 0 is forgotten, then read. `each`, if given, receives every position's logits as they come.
/// Errors: Exit::kConfig for fewer than 2 ids, or ids outside the vocabulary; kData where a probability is not finite.
Score score(Level& model, const std::vector<int32_t>& ids, const Level::EachLogits& each = {},
            const Progress& progress = {});

}  // namespace trireme
