#pragma once
/// The largest of a row of logits.

#include <cstdint>

namespace trireme {

struct RowTop {
    float top;   // -inf of no logits
    int64_t at;  // the first that has it
    bool nan;    // whether one is NaN: the others say nothing then
};

/// n at least 1.
RowTop row_top(const float* x, int64_t n);

}  // namespace trireme
