#pragma once
/// check_ids(): validation of token ids before they are passed to a model.

#include <cstdint>
#include <span>

#include "runtime/error.h"

namespace trireme {

/// Errors: Exit::kConfig naming the first id outside the vocabulary.
inline void check_ids(std::span<const int32_t> ids, int64_t vocab) {
    for (size_t i = 0; i < ids.size(); ++i) {
        require(ids[i] >= 0 && ids[i] < vocab, Exit::kConfig,
                "prompt: id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab);
    }
}

}  // namespace trireme
