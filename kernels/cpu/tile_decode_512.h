#pragma once
/// tile_decode_512(): decodes blocks of coded KV tiles with AVX-512 VBMI2, on x86 only.

#include <cstdint>

namespace trireme {

/// Whether this process uses it: by default, if the CPU has it.
bool has_tile_decode_512();
/// For tests, which also do without.
void allow_tile_decode_512(bool allow);
/// Decodes n elements, a multiple of 64, as tile_code.h describes; `base` has one for each. `escapes` holds `room`;
/// later ones are 0.
void tile_decode_512(uint8_t* plain, bool f16, int64_t n, const uint8_t* base, const uint8_t* low_plane,
                     const uint8_t* high, const uint8_t* codes, const uint8_t* escapes, int64_t room);

}  // namespace trireme
