#include "kernels/cpu/byte_dots.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include <hwy/highway.h>

#include "kernels/interleaved.h"
#include "runtime/error.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>
#define TRIREME_BYTE_DOTS 1
#else
#define TRIREME_BYTE_DOTS 0
#endif

namespace trireme {

namespace {

bool cpu_has_them() {
#if TRIREME_BYTE_DOTS
    return __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0;
#else
    return false;
#endif
}

std::atomic<bool> allowed_here{cpu_has_them()};

}  // namespace

bool byte_dots() {
    return allowed_here.load(std::memory_order_relaxed);
}

void allow_byte_dots(bool allowed) {
    allowed_here.store(allowed && cpu_has_them(), std::memory_order_relaxed);
}

#if TRIREME_BYTE_DOTS

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")

namespace {

using V = __m512i;
using Vf = __m512;

// A body, not a lambda: lambdas are compiled without the attributes.
#define TRIREME_INLINE inline __attribute__((always_inline))

TRIREME_INLINE V word(const std::byte* block, int64_t i) {
    return _mm512_loadu_si512(block + i * 64);
}
TRIREME_INLINE V set(int32_t x) {
    return _mm512_set1_epi32(x);
}
/// Bits of every byte: v >> shift & mask. Bits of a byte's neighbour are outside of the mask.
TRIREME_INLINE V bits(V v, int shift, int mask) {
    return _mm512_and_si512(_mm512_srlv_epi32(v, set(shift)), _mm512_set1_epi8(static_cast<char>(mask)));
}
/// The same, to the left.
TRIREME_INLINE V bits_up(V v, int shift, int mask) {
    return _mm512_and_si512(_mm512_sllv_epi32(v, set(shift)), _mm512_set1_epi8(static_cast<char>(mask)));
}
TRIREME_INLINE Vf halves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
/// The lower or the upper f16 number of every word.
TRIREME_INLINE Vf half_of(V words, int upper) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srlv_epi32(words, set(16 * upper))));
}
TRIREME_INLINE Vf number(V words) {
    return _mm512_cvtepi32_ps(words);
}
/// v >> shift & mask of every word.
TRIREME_INLINE V field(V v, int shift, int mask) {
    return _mm512_and_si512(_mm512_srlv_epi32(v, set(shift)), set(mask));
}

using enum StoredType;

constexpr bool by_16(StoredType t) {
    return t == kQ2_K || t == kQ3_K || t == kQ6_K;
}
constexpr bool with_offset(StoredType t) {
    return t == kQ4_1 || t == kQ5_1 || t == kQ2_K || t == kQ4_K || t == kQ5_K;
}
constexpr bool by_table(StoredType t) {
    return t == kIQ4_NL || t == kIQ4_XS || t == kMXFP4;
}
/// The number that codes have too much: they are unsigned in dot products. INT4 has its own.
constexpr int zero_of(StoredType t) {
    switch (t) {
        case kQ4_0:
            return 8;
        case kQ5_0:
            return 16;
        case kQ8_0:
        case kIQ4_NL:
        case kIQ4_XS:
            return 128;
        case kMXFP4:
            return 12;
        case kQ6_K:
            return 32;
        case kQ3_K:
            return 4;
        default:
            return 0;
    }
}

/// Codes by 4-bit number, unsigned.
template <StoredType kType>
TRIREME_INLINE V looked_up(V nibbles) {
    alignas(16) uint8_t table[16];
    for (int i = 0; i < 16; ++i) {
        table[i] = static_cast<uint8_t>((kType == kMXFP4 ? kE2m1Values[i] : kUnevenValues[i]) + zero_of(kType));
    }
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table))),
                               nibbles);
}

/// Four codes of each row: elements [32 cell + 4 j, + 4) of a block.
template <StoredType kType>
TRIREME_INLINE V codes_of(const std::byte* b, int cell, int j) {
    if constexpr (kType == kQ8_0) return _mm512_xor_si512(word(b, j), set(static_cast<int32_t>(0x80808080u)));
    if constexpr (kType == kQ4_0 || kType == kIQ4_NL || kType == kMXFP4) {
        const V v = bits(word(b, j % 4), j / 4 * 4, 15);
        if constexpr (by_table(kType)) return looked_up<kType>(v);
        return v;
    }
    if constexpr (kType == kQ4_1 || kType == kInt4) return bits(word(b, 1 + j % 4), j / 4 * 4, 15);
    if constexpr (kType == kIQ4_XS) return looked_up<kType>(bits(word(b, 2 + cell * 4 + j % 4), j / 4 * 4, 15));
    if constexpr (kType == kQ5_0 || kType == kQ5_1) {
        constexpr int kFirst = kType == kQ5_0 ? 0 : 1;
        // Bits 4 j to 4 j + 3 of a word are the fifth bits of its four codes: byte j / 2 goes to every byte.
        const V place = _mm512_add_epi8(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)),
                                        _mm512_set1_epi8(static_cast<char>(j / 2)));
        const V which = set(j % 2 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u));
        const __mmask64 fifth = _mm512_test_epi8_mask(_mm512_shuffle_epi8(word(b, kFirst), place), which);
        const V low = bits(word(b, kFirst + 1 + j % 4), j / 4 * 4, 15);
        return _mm512_mask_add_epi8(low, fifth, low, _mm512_set1_epi8(16));
    }
    if constexpr (kType == kQ4_K) return bits(word(b, 4 + cell / 2 * 8 + j), cell % 2 * 4, 15);
    if constexpr (kType == kQ5_K) {
        const V low = bits(word(b, 12 + cell / 2 * 8 + j), cell % 2 * 4, 15), high = word(b, 4 + j);
        return _mm512_or_si512(low, cell < 4 ? bits_up(high, 4 - cell, 16) : bits(high, cell - 4, 16));
    }
    const int half = cell / 4, run = cell % 4;
    if constexpr (kType == kQ6_K) {
        const V low = bits(word(b, half * 16 + run % 2 * 8 + j), run / 2 * 4, 15), high = word(b, 32 + half * 8 + j);
        return _mm512_or_si512(low, run < 2 ? bits_up(high, 4 - 2 * run, 48) : bits(high, 2 * run - 4, 48));
    }
    if constexpr (kType == kQ2_K) return bits(word(b, 4 + half * 8 + j), 2 * run, 3);
    if constexpr (kType == kQ3_K) {
        const V low = bits(word(b, 8 + half * 8 + j), 2 * run, 3), third = word(b, j);
        return _mm512_or_si512(low, cell < 2 ? bits_up(third, 2 - cell, 4) : bits(third, cell - 2, 4));
    }
}

/// What a block has once for all its groups.
struct BlockScales {
    Vf d, m;
    V a, b, c;  // words of scales
};
template <StoredType kType>
TRIREME_INLINE BlockScales block_scales(const std::byte* b) {
    BlockScales s{};
    const std::byte* ends = b + words_of(kType) * 64;
    if constexpr (kType == kQ4_0 || kType == kQ5_0 || kType == kQ8_0 || kType == kIQ4_NL) s.d = halves(ends);
    if constexpr (kType == kQ4_1 || kType == kQ5_1) {
        s.d = half_of(word(b, 0), 0);
        s.m = half_of(word(b, 0), 1);
    }
    if constexpr (kType == kMXFP4) {
        const V e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(ends)));
        const V normal = _mm512_slli_epi32(_mm512_sub_epi32(e, set(1)), 23);
        const __mmask16 small = _mm512_cmplt_epu32_mask(e, set(2));
        s.d = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, set(0x00200000), e));
    }
    if constexpr (kType == kInt4) {
        s.d = _mm512_castsi512_ps(_mm512_and_si512(word(b, 0), set(static_cast<int32_t>(0xffffff00u))));
        s.a = _mm512_and_si512(word(b, 0), set(255));
    }
    if constexpr (kType == kQ4_K || kType == kQ5_K) {
        s.d = half_of(word(b, 0), 0);
        s.m = half_of(word(b, 0), 1);
        s.a = word(b, 1);
        s.b = word(b, 2);
        s.c = word(b, 3);
    }
    if constexpr (kType == kQ2_K) {
        s.d = half_of(word(b, 20), 0);
        s.m = half_of(word(b, 20), 1);
    }
    if constexpr (kType == kQ3_K || kType == kQ6_K) s.d = halves(ends);
    if constexpr (kType == kIQ4_XS) s.d = half_of(word(b, 0), 0);
    return s;
}

/// The scale of a group of 32 or 16 elements, and with offsets the number that is added to each weight.
struct GroupScale {
    Vf scale, offset;
};
template <StoredType kType>
TRIREME_INLINE GroupScale group_scale(const std::byte* b, const BlockScales& s, int g) {
    if constexpr (kType == kQ4_K || kType == kQ5_K) {
        V scale, min;
        if (g < 4) {
            scale = field(s.a, 8 * g, 63);
            min = field(s.b, 8 * g, 63);
        } else {
            const int at = 8 * (g - 4);
            scale = _mm512_or_si512(field(s.c, at, 15), _mm512_slli_epi32(field(s.a, at + 6, 3), 4));
            min = _mm512_or_si512(field(s.c, at + 4, 15), _mm512_slli_epi32(field(s.b, at + 6, 3), 4));
        }
        return {_mm512_mul_ps(s.d, number(scale)), _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(s.m, number(min)))};
    }
    if constexpr (kType == kQ2_K) {
        const V both = word(b, g / 4);
        return {_mm512_mul_ps(s.d, number(field(both, g % 4 * 8, 15))),
                _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(s.m, number(field(both, g % 4 * 8 + 4, 15))))};
    }
    if constexpr (kType == kQ6_K) {
        const V scale = _mm512_srai_epi32(_mm512_sllv_epi32(word(b, 48 + g / 4), set(24 - g % 4 * 8)), 24);
        return {_mm512_mul_ps(s.d, number(scale)), _mm512_setzero_ps()};
    }
    if constexpr (kType == kQ3_K) {
        const V low = field(word(b, 24 + g / 4 % 2), g % 4 * 8 + g / 8 * 4, 15);
        const V high = field(word(b, 26), g % 4 * 8 + g / 4 * 2, 3);
        const V scale = _mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)), set(32));
        return {_mm512_mul_ps(s.d, number(scale)), _mm512_setzero_ps()};
    }
    if constexpr (kType == kIQ4_XS) {
        const V low = field(word(b, 1), 4 * g, 15), high = field(word(b, 0), 16 + 2 * g, 3);
        const V scale = _mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)), set(32));
        return {_mm512_mul_ps(s.d, number(scale)), _mm512_setzero_ps()};
    }
    return {s.d, s.m};
}

/// A packed row of x.
struct ByteRow {
    std::byte* codes;           // [k / 32] of 32 high bytes and 32 low ones
    float* scales;              // [k / 32]
    int32_t *sums, *sums_16;    // [k / 32], [k / 16]
    float *scaled, *scaled_16;  // the sums times the scale

    ByteRow() = default;
    ByteRow(std::byte* row, int64_t k)
        : codes(row),
          scales(reinterpret_cast<float*>(row + k / 32 * 64)),
          sums(reinterpret_cast<int32_t*>(scales + k / 32)),
          sums_16(sums + k / 32),
          scaled(reinterpret_cast<float*>(sums_16 + k / 16)),
          scaled_16(scaled + k / 32) {}
};

TRIREME_INLINE V four_bytes(const std::byte* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return set(x);
}

/// Rounds 32 numbers to whole ones.
TRIREME_INLINE void pack_block(const Vf (&v)[2], int64_t b, bool two, const ByteRow& out) {
    const float most = two ? 127.0F * 256 : 127.0F;
    const Vf sizes = _mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1]));
    const float largest = _mm512_reduce_max_ps(sizes);
    const __mmask16 good =
        _mm512_cmp_ps_mask(_mm512_abs_ps(v[0]), _mm512_set1_ps(std::numeric_limits<float>::max()), _CMP_LE_OQ) &
        _mm512_cmp_ps_mask(_mm512_abs_ps(v[1]), _mm512_set1_ps(std::numeric_limits<float>::max()), _CMP_LE_OQ);
    const bool finite = good == 0xffff;
    // Numbers so small that the inverse is infinite are zeros. A NaN or an infinity makes all products NaN.
    const float inverse = finite && largest > most / std::numeric_limits<float>::max() ? most / largest : 0;
    out.scales[b] = finite ? largest / most : std::numeric_limits<float>::quiet_NaN();
    int32_t all = 0;
    for (int h = 0; h < 2; ++h) {
        const V whole =
            inverse == 0 ? _mm512_setzero_si512() : _mm512_cvtps_epi32(_mm512_mul_ps(v[h], _mm512_set1_ps(inverse)));
        const V high = two ? _mm512_srai_epi32(_mm512_add_epi32(whole, set(128)), 8) : whole;
        const V low = two ? _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 8)) : _mm512_setzero_si512();
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out.codes + b * 64 + h * 16), _mm512_cvtepi32_epi8(high));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out.codes + b * 64 + 32 + h * 16), _mm512_cvtepi32_epi8(low));
        const int32_t sum = _mm512_reduce_add_epi32(whole);
        out.sums_16[2 * b + h] = sum;
        out.scaled_16[2 * b + h] = static_cast<float>(sum) * out.scales[b];
        all += sum;
    }
    out.sums[b] = all;
    out.scaled[b] = static_cast<float>(all) * out.scales[b];
}

/// Elements [at, at + 16) of x, zeros where x has none.
TRIREME_INLINE Vf sixteen(const float* x, int64_t at, int64_t n) {
    const int64_t from = std::clamp<int64_t>(-at, 0, 16), to = std::clamp<int64_t>(n - at, 0, 16);
    if (to <= from) return _mm512_setzero_ps();
    return _mm512_maskz_expandloadu_ps(static_cast<__mmask16>((1u << to) - (1u << from)), x + (at + from));
}

void pack_row(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out) {
    const ByteRow row(out, k);
    for (int64_t b = 0; b < k / 32; ++b) {
        const int64_t at = b * 32 - skip;
        const Vf v[2] = {sixteen(x, at, n), sixteen(x, at + 16, n)};
        pack_block(v, b, two, row);
    }
}

/// Sixteen products of one tile with each of R rows of x. The order of additions does not depend on R. `fetch`: the
/// weights are not in the cache yet.
template <StoredType kType, int R, bool kTwo>
inline void multiply_tile(const std::byte* tile, const ByteRow* x, int64_t k, bool fetch, Vf (&acc)[R]) {
    constexpr int64_t kElements = layout_of(kType).elements, kBytes = static_cast<int64_t>(layout_of(kType).bytes);
    constexpr int kGroups = by_16(kType) ? 2 : 1, kWords = 8 / kGroups;  // of a cell of 32 elements
    constexpr int64_t kAhead = 4096;  // bytes; blocks are not read in the order of addresses
    for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
    for (int64_t first = 0; first < k; first += kElements, tile += kBytes * kInterleaved) {
        const BlockScales s = block_scales<kType>(tile);
#pragma GCC unroll 8
        for (int cell = 0; cell < kElements / 32; ++cell) {
            const int64_t at = first / 32 + cell;
            constexpr int64_t kShare = kBytes * kInterleaved / (kElements / 32);  // bytes
            for (int64_t byte = cell * kShare; fetch && byte < (cell + 1) * kShare; byte += 64) {
                _mm_prefetch(reinterpret_cast<const char*>(tile + kAhead + byte), _MM_HINT_T0);
            }
#pragma GCC unroll 2
            for (int half = 0; half < kGroups; ++half) {
                V high[R], low[R];
                for (int r = 0; r < R; ++r) high[r] = low[r] = _mm512_setzero_si512();
#pragma GCC unroll 8
                for (int j = half * kWords; j < (half + 1) * kWords; ++j) {
                    const V codes = codes_of<kType>(tile, cell, j);
#pragma GCC unroll 8
                    for (int r = 0; r < R; ++r) {
                        const std::byte* from = x[r].codes + at * 64 + 4 * j;
                        high[r] = _mm512_dpbusd_epi32(high[r], codes, four_bytes(from));
                        if constexpr (kTwo) low[r] = _mm512_dpbusd_epi32(low[r], codes, four_bytes(from + 32));
                    }
                }
                const GroupScale g = group_scale<kType>(tile, s, cell * kGroups + half);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    V sum = high[r];
                    if constexpr (kTwo) sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), low[r]);
                    const int64_t of = kGroups * at + half;
                    const int32_t all = kGroups == 2 ? x[r].sums_16[of] : x[r].sums[of];
                    if constexpr (kType == kInt4) sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(s.a, set(all)));
                    if constexpr (zero_of(kType) != 0) sum = _mm512_sub_epi32(sum, set(all * zero_of(kType)));
                    const Vf value = _mm512_mul_ps(number(sum), _mm512_set1_ps(x[r].scales[at]));
                    acc[r] = _mm512_fmadd_ps(value, g.scale, acc[r]);
                    if constexpr (with_offset(kType)) {
                        const float scaled = kGroups == 2 ? x[r].scaled_16[of] : x[r].scaled[of];
                        acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(scaled), g.offset, acc[r]);
                    }
                }
            }
        }
    }
}

template <StoredType kType, int R, bool kTwo>
__attribute__((noinline)) void multiply_rows(const ByteProduct& p, int64_t row, int64_t begin, int64_t end) {
    ByteRow x[R];
    for (int r = 0; r < R; ++r) x[r] = ByteRow(p.x + (row + r) * byte_row_bytes(p.k), p.k);
    for (int64_t n = begin / kInterleaved * kInterleaved; n < end; n += kInterleaved) {
        Vf acc[R];
        multiply_tile<kType, R, kTwo>(p.tiles + n * p.stride, x, p.k, /*fetch=*/row == 0, acc);
        const auto from = static_cast<int>(std::max<int64_t>(0, begin - n));
        const auto to = static_cast<int>(std::min(kInterleaved, end - n));
        const auto mask = static_cast<__mmask16>((1u << to) - (1u << from));
        for (int r = 0; r < R; ++r) {
            float* out = p.out + (row + r) * p.out_stride + (n + from - p.first);
            const Vf sums = from == 0 ? acc[r] : _mm512_maskz_compress_ps(mask, acc[r]);
            _mm512_mask_storeu_ps(out, static_cast<__mmask16>(mask >> from), sums);
        }
    }
}

/// All rows of x, most at a time first: weights are decoded once for each run of rows.
template <StoredType kType, bool kTwo>
void multiply_all(const ByteProduct& p, int64_t begin, int64_t end) {
    int64_t row = 0;
    for (; row + 8 <= p.rows; row += 8) multiply_rows<kType, 8, kTwo>(p, row, begin, end);
    if (row + 4 <= p.rows) {
        multiply_rows<kType, 4, kTwo>(p, row, begin, end);
        row += 4;
    }
    if (row + 2 <= p.rows) {
        multiply_rows<kType, 2, kTwo>(p, row, begin, end);
        row += 2;
    }
    if (row < p.rows) multiply_rows<kType, 1, kTwo>(p, row, begin, end);
}

template <StoredType kType>
void multiply_type(const ByteProduct& p, int64_t begin, int64_t end) {
    if (p.two) {
        multiply_all<kType, true>(p, begin, end);
    } else {
        multiply_all<kType, false>(p, begin, end);
    }
}

}  // namespace

HWY_POP_ATTRIBUTES

void pack_bytes(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out) {
    pack_row(x, n, skip, k, two, out);
}

void multiply_bytes(const ByteProduct& p, int64_t begin, int64_t end) {
    switch (p.type) {
        case kQ4_0:
            return multiply_type<kQ4_0>(p, begin, end);
        case kQ4_1:
            return multiply_type<kQ4_1>(p, begin, end);
        case kQ5_0:
            return multiply_type<kQ5_0>(p, begin, end);
        case kQ5_1:
            return multiply_type<kQ5_1>(p, begin, end);
        case kQ8_0:
            return multiply_type<kQ8_0>(p, begin, end);
        case kIQ4_NL:
            return multiply_type<kIQ4_NL>(p, begin, end);
        case kMXFP4:
            return multiply_type<kMXFP4>(p, begin, end);
        case kQ2_K:
            return multiply_type<kQ2_K>(p, begin, end);
        case kQ3_K:
            return multiply_type<kQ3_K>(p, begin, end);
        case kQ4_K:
            return multiply_type<kQ4_K>(p, begin, end);
        case kQ5_K:
            return multiply_type<kQ5_K>(p, begin, end);
        case kQ6_K:
            return multiply_type<kQ6_K>(p, begin, end);
        case kIQ4_XS:
            return multiply_type<kIQ4_XS>(p, begin, end);
        case kInt4:
            return multiply_type<kInt4>(p, begin, end);
        default:
            break;
    }
    fail(Exit::kInternal, "multiply_bytes: {} is not interleaved", name_of(p.type));
}

#else

void pack_bytes(const float*, int64_t, int64_t, int64_t, bool, std::byte*) {
    fail(Exit::kInternal, "pack_bytes: this CPU has no dot products of bytes");
}
void multiply_bytes(const ByteProduct&, int64_t, int64_t) {
    fail(Exit::kInternal, "multiply_bytes: this CPU has no dot products of bytes");
}

#endif

}  // namespace trireme
