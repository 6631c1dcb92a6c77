#pragma once
/// Decodes GGUF's block types to f32.

#include <cstddef>
#include <cstdint>

#include "model/files/stored_type.h"

namespace trireme {

/// Decodes `n` elements (whole blocks of layout_of(type)) from `blocks` to `out`. Fp32 products and sums in the order
/// the formats define them: d * scale * q, then - dmin * min. A scale that is NaN or infinite shows in the values.
void dequantise(StoredType type, const std::byte* blocks, int64_t n, float* out);

}  // namespace trireme
