#pragma once
/// Encoder of blocks: the inverse of dequantise().

#include <cstddef>
#include <cstdint>

#include "runtime/stored_type.h"

namespace trireme {

/// The types that quantise() writes: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, IQ4_XS and Q2_K to Q6_K.
bool can_quantise(StoredType type);

/// Encodes `n` finite values (whole blocks of layout_of(type)) to `blocks`. Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 have the
/// bits of llama.cpp's quantisers. For the other types, scales are searched that make the sum of squared errors small
/// (quantise_search.h). Returns false if a scale is beyond the range of f16; the blocks are then not usable.
bool quantise(StoredType type, const float* values, int64_t n, std::byte* blocks);

}  // namespace trireme
