#pragma once
/// Decoder of blocks to f32.

#include <cstddef>
#include <cstdint>

#include "runtime/stored_type.h"

namespace trireme {

/// Decodes `n` elements (whole blocks of layout_of(type)) from `blocks` to `out`. Products and sums are f32, in the
/// order that the formats define: d * scale * q, then - dmin * min. A NaN or infinite scale shows in the values.
void dequantise(StoredType type, const std::byte* blocks, int64_t n, float* out);

/// Whether the scales of these blocks are finite, and so all values. False also for scales so large that some values
/// would not be, and for FP8 numbers that are NaN.
bool finite_scales(StoredType type, const std::byte* blocks, int64_t n);

/// Whether the scales of these blocks are so small that every value fits f16. Some blocks whose values fit give false.
bool surely_fit_f16(StoredType type, const std::byte* blocks, int64_t n);

}  // namespace trireme
