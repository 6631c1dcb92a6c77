/// Lanes of byte_lanes_256-inl.h with dot products of bytes. TRIREME_DPBUSD is the instruction: byte_dots_avx_vnni.cc
/// has that of AVX-VNNI, and the tests have AVX-512's encoding of the same one, since few CPUs have both.

#include "kernels/cpu/byte_lanes_256-inl.h"

TRIREME_INLINE V add_dots(V sums, V codes, V x) {
    return {TRIREME_DPBUSD(sums.a, codes.a, x.a), TRIREME_DPBUSD(sums.b, codes.b, x.b)};
}

#include "kernels/cpu/byte_sums_vnni-inl.h"

/// Writes 32 whole numbers as 32 high bytes and 32 low ones.
TRIREME_INLINE void pack_codes(const int32_t (&whole)[32], bool two, std::byte* out) {
    int8_t codes[64];
    for (int i = 0; i < 32; ++i) {
        const int32_t high = two ? (whole[i] + 128) >> 8 : whole[i];
        codes[i] = static_cast<int8_t>(high);
        codes[32 + i] = static_cast<int8_t>(two ? whole[i] - high * 256 : 0);
    }
    std::memcpy(out, codes, sizeof codes);
}

#include "kernels/cpu/byte_tiles-inl.h"
