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

#include "kernels/cpu/tile_codes-inl.h"

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
