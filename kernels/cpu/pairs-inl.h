/// Dot products of bf16 pairs (bf16_dots.h): a 512-bit register holds 32 elements, and an instruction adds the products
/// of lanes 2i and 2i + 1 to lane i of an f32 accumulator.
#if defined(TRIREME_KERNELS_CPU_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_PAIRS_INL_H
#undef TRIREME_KERNELS_CPU_PAIRS_INL_H
#else
#define TRIREME_KERNELS_CPU_PAIRS_INL_H
#endif

#include "kernels/cpu/dot-inl.h"

/// 1 if the current target may have them. Functions that use them are between TRIREME_BEFORE_PAIRS and
/// TRIREME_AFTER_PAIRS. Code that is compiled without them cannot inline these functions, so it calls them.
#undef TRIREME_PAIRS
#if HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64
#define TRIREME_PAIRS 1
#include <immintrin.h>
#else
#define TRIREME_PAIRS 0
#endif

#ifndef TRIREME_BEFORE_PAIRS
#define TRIREME_BEFORE_PAIRS HWY_PUSH_ATTRIBUTES("avx512bf16")
#define TRIREME_AFTER_PAIRS HWY_POP_ATTRIBUTES
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

inline constexpr int64_t kPairLanes = 32;  // elements of a register

#if TRIREME_PAIRS

static_assert(kPairLanes * sizeof(bf16) == sizeof(__m512i) && kPairLanes == 2 * kLanes);

TRIREME_BEFORE_PAIRS

HWY_INLINE __m512i load_pairs(const bf16* p) {
    return _mm512_loadu_si512(p);
}
/// The first n < 32 elements, then zeros. Reads no further.
HWY_INLINE __m512i load_pairs_n(const bf16* p, int64_t n) {
    return _mm512_maskz_loadu_epi16((uint32_t{1} << n) - 1, p);
}
HWY_INLINE Vf add_pairs(Vf sum, __m512i a, __m512i b) {
    return Vf{_mm512_dpbf16_ps(sum.raw, (__m512bh)a, (__m512bh)b)};
}
/// Element pair `p` in every lane.
HWY_INLINE __m512i broadcast_pair(const bf16* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return _mm512_set1_epi32(pair);
}

/// Updates `least`, which has_subnormals reads, with a vector. It begins with -1 in every lane.
HWY_INLINE __m512i watch_subnormals(__m512i least, __m512i v) {
    // Twice the bits of a subnormal number, less 1, are below 0xff; zero's wrap around.
    return _mm512_min_epu16(least, _mm512_add_epi16(_mm512_slli_epi16(v, 1), _mm512_set1_epi16(-1)));
}
HWY_INLINE bool has_subnormals(__m512i least) {
    return _mm512_cmplt_epu16_mask(least, _mm512_set1_epi16(0xff)) != 0;
}

/// w . x with every element widened first.
inline HWY_NOINLINE float widened_dot(const bf16* w, const bf16* x, int64_t k) {
    const F d;
    Vf sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) sum = hn::MulAdd(load(d, w + i), load(d, x + i), sum);
    if (i < k) sum = hn::MulAdd(load_n(d, w + i, k - i), load_n(d, x + i, k - i), sum);
    return sum_lanes(sum);
}

/// dot_tile for pairs; x[r] is zero from k to the next multiple of 32. A product's bits depend on its weight row and
/// its x alone: one accumulator runs over k, and a weight row that has subnormal numbers is widened.
template <int W, int R>
HWY_INLINE void pair_tile(const bf16* const* w, const bf16* x, int64_t x_stride, int64_t k, float* out,
                          int64_t out_stride, Ahead& ahead) {
    static_assert(W == 1 || W == 4);
    const F d;
    Vf acc[R][W];
    __m512i least[W];
    for (int j = 0; j < W; ++j) least[j] = _mm512_set1_epi16(-1);
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < W; ++j) acc[r][j] = hn::Zero(d);
    int64_t i = 0;
    for (; i + kPairLanes <= k; i += kPairLanes) {
        ahead.group();
        __m512i xs[R];
        for (int r = 0; r < R; ++r) xs[r] = load_pairs(x + r * x_stride + i);
        for (int j = 0; j < W; ++j) {
            const __m512i wj = load_pairs(w[j] + i);
            least[j] = watch_subnormals(least[j], wj);
            for (int r = 0; r < R; ++r) acc[r][j] = add_pairs(acc[r][j], wj, xs[r]);
        }
    }
    if (i < k) {
        for (int j = 0; j < W; ++j) {
            const __m512i wj = load_pairs_n(w[j] + i, k - i);
            least[j] = watch_subnormals(least[j], wj);
            for (int r = 0; r < R; ++r) acc[r][j] = add_pairs(acc[r][j], wj, load_pairs(x + r * x_stride + i));
        }
    }
    for (int r = 0; r < R; ++r) {
        if constexpr (W == 1) {
            out[r * out_stride] = sum_lanes(acc[r][0]);
        } else {
            hn::StoreU(sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]), F4(), out + r * out_stride);
        }
    }
    for (int j = 0; j < W; ++j) {
        if (HWY_LIKELY(!has_subnormals(least[j]))) continue;
        for (int r = 0; r < R; ++r) out[r * out_stride + j] = widened_dot(w[j], x + r * x_stride, k);
    }
}

TRIREME_AFTER_PAIRS

#endif  // TRIREME_PAIRS

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_PAIRS_INL_H
