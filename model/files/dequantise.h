#pragma once
/// Decoder of GGUF's block types to f32.

#include <cstddef>
#include <cstdint>

#include "model/files/stored_type.h"

namespace trireme {

/// Decodes `n` elements (whole blocks of layout_of(type)) from `blocks` to `out`. Products and sums are f32, in the
/// order that the formats define: d * scale * q, then - dmin * min. A NaN or infinite scale shows in the values.
void dequantise(StoredType type, const std::byte* blocks, int64_t n, float* out);

}  // namespace trireme
