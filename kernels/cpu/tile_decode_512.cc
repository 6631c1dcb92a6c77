// Decoding of KV tiles (kernels/tile_code.h) for CPUs with AVX-512 VBMI2, whose expansion of bytes puts escapes into
// their places without a loop.

#include "kernels/cpu/tile_decode_512.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <hwy/highway.h>

#if HWY_ARCH_X86_64
#include <immintrin.h>

namespace trireme {

namespace {

bool cpu_has_it() {
    return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

std::atomic<bool> in_use{cpu_has_it()};

}  // namespace

bool has_tile_decode_512() {
    return in_use.load(std::memory_order_relaxed);
}

void allow_tile_decode_512(bool allow) {
    in_use.store(allow && cpu_has_it(), std::memory_order_relaxed);
}

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi2,popcnt")

void tile_decode_512(uint8_t* plain, bool f16, int64_t n, const uint8_t* base, const uint8_t* low_plane,
                     const uint8_t* high, const uint8_t* codes, const uint8_t* escapes, int64_t room) {
    // 0-7, 8-15, ... of the low bytes and of the high ones, to 0-31 and 32-63.
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                  second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    for (int64_t i = 0; i < n; i += 64) {
        uint64_t code[3], of_high[3] = {};
        std::memcpy(code, codes + i / 64 * 24, sizeof code);
        __m512i distance = _mm512_maskz_set1_epi8(code[0], 1);
        distance = _mm512_mask_add_epi8(distance, code[1], distance, _mm512_set1_epi8(2));
        distance = _mm512_mask_add_epi8(distance, code[2], distance, _mm512_set1_epi8(4));
        __m512i exponent = _mm512_sub_epi8(_mm512_loadu_si512(base + i), distance);
        const uint64_t escaped = code[0] & code[1] & code[2];
        const int64_t there = std::clamp<int64_t>(room, 0, 64);
        const __mmask64 readable = there == 64 ? ~uint64_t{0} : (uint64_t{1} << there) - 1;
        exponent = _mm512_mask_expand_epi8(exponent, escaped, _mm512_maskz_loadu_epi8(readable, escapes));
        const auto count = static_cast<int64_t>(_mm_popcnt_u64(escaped));
        escapes += std::min(count, there);
        room -= count;
        __m512i low = _mm512_loadu_si512(low_plane + i), top;
        if (f16) {
            std::memcpy(of_high, high + i / 64 * 24, sizeof of_high);
            top = _mm512_and_si512(_mm512_slli_epi16(exponent, 2), _mm512_set1_epi8(124));
            top = _mm512_mask_add_epi8(top, of_high[0], top, _mm512_set1_epi8(1));
            top = _mm512_mask_add_epi8(top, of_high[1], top, _mm512_set1_epi8(2));
            top = _mm512_mask_add_epi8(top, of_high[2], top, _mm512_set1_epi8(static_cast<char>(128)));
        } else {
            const __m512i upper_bit = _mm512_set1_epi8(static_cast<char>(128)), others = _mm512_set1_epi8(127);
            top = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(exponent, 1), others),
                                  _mm512_and_si512(low, upper_bit));
            low = _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi16(exponent, 7), upper_bit),
                                  _mm512_and_si512(low, others));
        }
        const __m512i a = _mm512_unpacklo_epi8(low, top), b = _mm512_unpackhi_epi8(low, top);
        _mm512_storeu_si512(plain + 2 * i, _mm512_permutex2var_epi64(a, first, b));
        _mm512_storeu_si512(plain + 2 * i + 64, _mm512_permutex2var_epi64(a, second, b));
    }
}

HWY_POP_ATTRIBUTES

}  // namespace trireme
#endif
