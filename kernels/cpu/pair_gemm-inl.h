/// Matrix multiply of attention and of prefill's matmul with dot products of bf16 pairs (pairs-inl.h).
#if defined(TRIREME_KERNELS_CPU_PAIR_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_PAIR_GEMM_INL_H
#undef TRIREME_KERNELS_CPU_PAIR_GEMM_INL_H
#else
#define TRIREME_KERNELS_CPU_PAIR_GEMM_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/pairs-inl.h"
#include "kernels/key_order.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

inline constexpr int64_t kPairTall = 64;  // columns of the widest strip

/// A strip of columns of k elements, two by two: pair p of column j is at[p * step + j / 16 * block + j % 16 * 2]. If
/// `ahead` is not null, the strip's number of bytes is prefetched from there.
struct PairStrip {
    const bf16* at;
    int64_t step, block, k;
    const char* ahead = nullptr;
};

/// Width of the strip that begins at column `at` of n; the last one may reach beyond n, to a multiple of 16.
HWY_INLINE int64_t pair_strip_width(int64_t at, int64_t n) {
    const int64_t left = n - at;
    return left >= kPairTall ? kPairTall : left > kPairTall / 4 ? kPairTall / 2 : kPairTall / 4;
}

/// Rounds n floats, a multiple of 16, to n bf16 numbers at the same address.
HWY_INLINE bf16* round_in_place(float* row, int64_t n) {
    auto* to = reinterpret_cast<bf16*>(row);
    for (int64_t i = 0; i < n; i += kLanes) store_rounded(F(), hn::LoadU(F(), row + i), to + i);
    return to;
}

#if TRIREME_PAIRS
static_assert(kPairTall == 4 * kLanes, "strips are 4, 2 or 1 vectors wide");
static_assert(kPairTall / 4 == 16 && kKeyBlock == 16, "columns of a strip are transposed, and keys kept, 16 at a time");

TRIREME_BEFORE_PAIRS

/// c[i][j] (+)= sum_p a[i][p] b[p][j] for MR rows and NV vectors of 16 columns, pairs in order: a result's bits do not
/// depend on MR, NV. With an odd k, a has a zero after it.
template <int MR, int NV, bool kAdd>
HWY_INLINE void pair_multiply_tile(const bf16* a, int64_t lda, const PairStrip& strip, float* c, int64_t ldc) {
    const F d;
    Vf acc[MR][NV];
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) acc[i][j] = kAdd ? hn::LoadU(d, c + i * ldc + j * kLanes) : hn::Zero(d);
    }
    const bf16* b = strip.at;
    for (int64_t p = 0; p < strip.k; p += 2, b += strip.step) {
        for (int j = 0; j < NV && strip.ahead; ++j) prefetch(strip.ahead + (p / 2 * NV + j) * 64);
        __m512i bj[NV];
        for (int j = 0; j < NV; ++j) bj[j] = load_pairs(b + j * strip.block);
        for (int i = 0; i < MR; ++i) {
            const __m512i x = broadcast_pair(a + i * lda + p);
            for (int j = 0; j < NV; ++j) acc[i][j] = add_pairs(acc[i][j], x, bj[j]);
        }
    }
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) hn::StoreU(acc[i][j], d, c + i * ldc + j * kLanes);
    }
}

/// Calls Tile::run<MR>(r, args...) for tiles of MR rows from r on that cover all rows. (multiply_rows of gemm-inl.h is
/// compiled without pairs, and cannot inline functions that have them; calling a tile cost 5 % of prefill attention.)
template <class Tile, class... Args>
HWY_INLINE void for_row_tiles(int64_t rows, const Args&... args) {
    int64_t r = 0;
    for (; r + 6 <= rows; r += 6) Tile::template run<6>(r, args...);
    if (r + 3 <= rows) {
        Tile::template run<3>(r, args...);
        r += 3;
    }
    if (r + 2 <= rows) {
        Tile::template run<2>(r, args...);
        r += 2;
    }
    if (r < rows) Tile::template run<1>(r, args...);
}

template <int NV, bool kAdd>
struct PairMultiplyTile {
    template <int MR>
    static HWY_INLINE void run(int64_t r, const bf16* a, int64_t lda, const PairStrip& b, float* c, int64_t ldc) {
        pair_multiply_tile<MR, NV, kAdd>(a + r * lda, lda, b, c + r * ldc, ldc);
    }
};

/// c [rows, width] (+)= a [rows, k] times one strip.
template <bool kAdd>
HWY_NOINLINE void pair_multiply_strip(const bf16* a, int64_t lda, int64_t rows, const PairStrip& b, int64_t width,
                                      float* c, int64_t ldc) {
    if (width == kPairTall) return for_row_tiles<PairMultiplyTile<4, kAdd>>(rows, a, lda, b, c, ldc);
    if (width == kPairTall / 2) return for_row_tiles<PairMultiplyTile<2, kAdd>>(rows, a, lda, b, c, ldc);
    for_row_tiles<PairMultiplyTile<1, kAdd>>(rows, a, lda, b, c, ldc);
}

/// multiply_keys for bf16 pairs.
inline HWY_NOINLINE void pair_multiply_keys(const bf16* a, int64_t lda, int64_t rows, const bf16* keys, int64_t n,
                                            int64_t dim, float* c, int64_t ldc, const char* ahead) {
    for (int64_t at = 0, width; at < n; at += width) {
        width = pair_strip_width(at, n);
        const char* next = ahead ? ahead + at * dim * 2 : nullptr;
        pair_multiply_strip<false>(a, lda, rows, PairStrip{keys + at * dim, 32, kKeyBlock * dim, dim, next}, width,
                                   c + at, ldc);
    }
}

/// Rows that are multiplied two by two: values of slots. With each row the line `fetch` bytes after it is prefetched.
struct PairRows {
    const bf16* at;
    int64_t stride, n;
    ptrdiff_t fetch;
};

/// c[i][32 j ..] += sum_s p[i][s] rows[s][32 j ..] for MR rows and NV times 32 columns, two slots at a time. With an
/// odd n, p has a zero after it.
template <int MR, int NV>
HWY_INLINE void pair_weigh_tile(const bf16* p, int64_t ldp, const PairRows& rows, float* c, int64_t ldc) {
    // Interleaving two rows leaves columns 0-3, 8-11, 16-19, 24-27 in one register and the others in a second one;
    // accumulators are kept in that order meanwhile.
    const F d;
    Vf acc[MR][NV][2];
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) {
            const float* at = c + i * ldc + j * kPairLanes;
            const Vf low = hn::LoadU(d, at), high = hn::LoadU(d, at + kLanes);
            acc[i][j][0] = Vf{_mm512_shuffle_f32x4(low.raw, high.raw, 0x88)};
            acc[i][j][1] = Vf{_mm512_shuffle_f32x4(low.raw, high.raw, 0xdd)};
        }
    }
    const bf16* even = rows.at;
    for (int64_t s = 0; s < rows.n; s += 2, even += 2 * rows.stride) {
        const bf16* odd = even + rows.stride;
        __m512i v[NV][2];
        for (int j = 0; j < NV; ++j) {
            prefetch(reinterpret_cast<const char*>(even + j * kPairLanes) + rows.fetch);
            prefetch(reinterpret_cast<const char*>(odd + j * kPairLanes) + rows.fetch);
            const __m512i a = load_pairs(even + j * kPairLanes);
            const __m512i b = s + 1 < rows.n ? load_pairs(odd + j * kPairLanes) : _mm512_setzero_si512();
            v[j][0] = _mm512_unpacklo_epi16(a, b);
            v[j][1] = _mm512_unpackhi_epi16(a, b);
        }
        for (int i = 0; i < MR; ++i) {
            const __m512i x = broadcast_pair(p + i * ldp + s);
            for (int j = 0; j < NV; ++j) {
                for (int half = 0; half < 2; ++half) acc[i][j][half] = add_pairs(acc[i][j][half], x, v[j][half]);
            }
        }
    }
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) {
            const __m512 low = _mm512_shuffle_f32x4(acc[i][j][0].raw, acc[i][j][1].raw, 0x44);
            const __m512 high = _mm512_shuffle_f32x4(acc[i][j][0].raw, acc[i][j][1].raw, 0xee);
            float* at = c + i * ldc + j * kPairLanes;
            hn::StoreU(Vf{_mm512_shuffle_f32x4(low, low, 0xd8)}, d, at);
            hn::StoreU(Vf{_mm512_shuffle_f32x4(high, high, 0xd8)}, d, at + kLanes);
        }
    }
}

template <int NV>
struct PairWeighTile {
    template <int MR>
    static HWY_INLINE void run(int64_t r, const bf16* p, int64_t ldp, const PairRows& rows, float* c, int64_t ldc) {
        pair_weigh_tile<MR, NV>(p + r * ldp, ldp, rows, c + r * ldc, ldc);
    }
};

/// c [queries, dim] += p [queries, n] rows [n, dim], dim a multiple of 32.
inline HWY_NOINLINE void pair_weigh(const bf16* p, int64_t ldp, int64_t queries, const PairRows& rows, float* c,
                                    int64_t ldc, int64_t dim) {
    for (int64_t at = 0; at < dim; at += 2 * kPairLanes) {
        const PairRows part{rows.at + at, rows.stride, rows.n, rows.fetch};
        if (at + kPairLanes == dim) return for_row_tiles<PairWeighTile<1>>(queries, p, ldp, part, c + at, ldc);
        for_row_tiles<PairWeighTile<2>>(queries, p, ldp, part, c + at, ldc);
    }
}

/// Transposes 16 registers of 16 pairs.
HWY_INLINE void transpose_pairs(__m512i (&v)[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {  // v[i + c]: columns c of each block of 4, of rows i .. i + 3
        v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int c = 0; c < 4; ++c) {
        const __m512i low0 = _mm512_shuffle_i32x4(v[c], v[c + 4], 0x44),
                      high0 = _mm512_shuffle_i32x4(v[c], v[c + 4], 0xee);
        const __m512i low1 = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0x44);
        const __m512i high1 = _mm512_shuffle_i32x4(v[c + 8], v[c + 12], 0xee);
        t[c] = _mm512_shuffle_i32x4(low0, low1, 0x88);
        t[c + 4] = _mm512_shuffle_i32x4(low0, low1, 0xdd);
        t[c + 8] = _mm512_shuffle_i32x4(high0, high1, 0x88);
        t[c + 12] = _mm512_shuffle_i32x4(high0, high1, 0xdd);
    }
    for (int i = 0; i < 16; ++i) v[i] = t[i];
}

/// Packs n rows of k elements, `stride` apart, as the columns of strips: strip after strip, each [k / 2][width] pairs,
/// with a zero after an odd k. Columns beyond n repeat the last row; their products are not used.
inline HWY_NOINLINE void pack_pairs(const bf16* rows, int64_t stride, int64_t n, int64_t k, bf16* panels) {
    const int64_t pairs = (k + 1) / 2;
    for (int64_t at = 0, width; at < n; at += width) {
        width = pair_strip_width(at, n);
        for (int64_t i = 0; i < width; i += 16) {
            bf16* to = panels + (at * pairs + i) * 2;
            for (int64_t p = 0; p < k; p += kPairLanes, to += width * kPairLanes) {
                const int64_t left = std::min(kPairLanes, k - p);
                __m512i v[16];
                for (int64_t r = 0; r < 16; ++r) {
                    const bf16* row = rows + std::min(at + i + r, n - 1) * stride + p;
                    v[r] = left == kPairLanes ? load_pairs(row) : load_pairs_n(row, left);
                }
                transpose_pairs(v);
                for (int64_t q = 0; 2 * q < left; ++q) _mm512_storeu_si512(to + q * width * 2, v[q]);
            }
        }
    }
}

TRIREME_AFTER_PAIRS
#endif  // TRIREME_PAIRS

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_PAIR_GEMM_INL_H
