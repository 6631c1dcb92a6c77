#pragma once
/// SIMD scans of a row of logits: n floats at x, n at least 1.

#include <cstdint>

namespace trireme {

/// The largest logit of a row.
struct RowTop {
    float top;   // -inf if all are
    int64_t at;  // index of the first of them
    bool nan;    // whether one is NaN: the other fields are undefined then
};
RowTop row_top(const float* x, int64_t n);

/// Sum of weight_of(x[i], top, scale). No x[i] is above `top`, none is NaN.
uint64_t row_weight(const float* x, int64_t n, float top, float scale);

/// Writes order_key(x[i], first_id + i) of each x[i] in [from, to), in the order of i. Returns their number. -0 counts
/// as 0.
int64_t row_keys(const float* x, int64_t n, int64_t first_id, float from, float to, uint64_t* keys);

}  // namespace trireme
