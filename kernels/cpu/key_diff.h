#pragma once
/// KeyDiff's scores on the CPU (ScoreBy::kKeyDiff): the keys of a head are compared with their mean direction.

#include <cstdint>

#include "kernels/slot_rule.h"

namespace trireme {

inline constexpr int64_t kMostKeyElements = 1024;  // of a key that is compared

/// The keys of one head: key i is in tile tiles[i / 256], `offset` bytes after its address (key_order.h).
struct HeadKeys {
    const int64_t* tiles;
    int64_t offset = 0;
    DType type;
    int64_t dim;  // at most kMostKeyElements
};

/// Sets scores[i] for the keys [begin, end), then returns the score of one more key, a row; `staged` null: there is
/// none. Sums go in ascending order of keys and of elements, as on GPUs (kernels/cuda/key_diff.h). Errors:
/// Exit::kInternal for longer keys.
float key_differences(const HeadKeys& keys, int64_t begin, int64_t end, const char* staged, float* scores);

}  // namespace trireme
