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

/// How the text is read: as a prompt, or token by token, as if each had been generated: a view that keeps some tokens
/// only then evicts behind each of them.
enum class ReadBy : uint8_t { kPrefill, kSteps };

/// Sequence 0 is forgotten, then read. `each`, if given, receives every position's logits as they come.
/// Errors: Exit::kConfig for fewer than 2 ids, or ids outside the vocabulary; kData where a probability is not finite.
Score score(Level& model, const std::vector<int32_t>& ids, ReadBy by = ReadBy::kPrefill,
            const Level::EachLogits& each = {}, const Progress& progress = {});

}  // namespace trireme
