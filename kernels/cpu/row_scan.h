#pragma once
/// Scans of a row of logits, in SIMD: the n floats at x, n at least 1.

#include <cstdint>

namespace trireme {

struct RowTop {
    float top;   // -inf if all are
    int64_t at;  // the first that has it
    bool nan;    // whether one is NaN: the others say nothing then
};
RowTop row_top(const float* x, int64_t n);

/// What they weigh together: the sum of weight_of(x[i], top, scale) (kernels/law.h). None is above `top`, none is NaN.
uint64_t row_weight(const float* x, int64_t n, float top, float scale);

/// Writes order_key(x[i], first_id + i) of each that is `from` or more and less than `to`, in the order of i. Returns
/// how many. -0 counts as 0.
int64_t row_keys(const float* x, int64_t n, int64_t first_id, float from, float to, uint64_t* keys);

}  // namespace trireme
