/// dot_tile: W x R dot products at once, the inner loop of decode products.
#if defined(TRIREME_KERNELS_CPU_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_DOT_INL_H
#undef TRIREME_KERNELS_CPU_DOT_INL_H
#else
#define TRIREME_KERNELS_CPU_DOT_INL_H
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Prefetches bytes that are needed soon, a few lines at a time between multiplications. Bursts would fill the core's
/// miss buffers and stall the loads of the running tile.
struct Ahead {
    const char* next = nullptr;
    int64_t step = 0;   // bytes from one group of lines to the next
    int64_t lines = 0;  // lines prefetched per group, at least step / 64

    HWY_INLINE void group() {
        for (int64_t i = 0; i < lines; ++i) prefetch(next + i * 64);
        next += step;
    }
};

/// out[r][j] = w[j] . x[r] over k elements, r < R, j < W; x[r] is at x + r * x_stride, zero from k to the next multiple
/// of kLanes. A product has one vector accumulator that runs over k in steps of kLanes, then sum4: its bits do not
/// depend on W and R.
template <int W, int R, class T>
HWY_INLINE void dot_tile(const T* const* w, const float* x, int64_t x_stride, int64_t k, float* out, int64_t out_stride,
                         Ahead& ahead) {
    const F d;
    constexpr int64_t kLine = kLanes * static_cast<int64_t>(sizeof(T)) >= 64
                                  ? 1
                                  : 64 / (kLanes * static_cast<int64_t>(sizeof(T)));  // steps in a cache line of a row
    Vf acc[R][W];
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < W; ++j) acc[r][j] = hn::Zero(d);

    const auto step = [&](int64_t i) HWY_ATTR {
        Vf xs[R];
        for (int r = 0; r < R; ++r) xs[r] = hn::LoadU(d, x + r * x_stride + i);
        for (int j = 0; j < W; ++j) {
            const Vf wj = load(d, w[j] + i);
            for (int r = 0; r < R; ++r) acc[r][j] = hn::MulAdd(wj, xs[r], acc[r][j]);
        }
    };
    int64_t i = 0;
    for (; i + kLine * kLanes <= k; i += kLine * kLanes) {
        ahead.group();
        for (int64_t s = 0; s < kLine; ++s) step(i + s * kLanes);
    }
    for (; i + kLanes <= k; i += kLanes) step(i);
    if (i < k) {
        Vf xs[R];
        for (int r = 0; r < R; ++r) xs[r] = hn::LoadU(d, x + r * x_stride + i);
        for (int j = 0; j < W; ++j) {
            const Vf wj = load_n(d, w[j] + i, k - i);
            for (int r = 0; r < R; ++r) acc[r][j] = hn::MulAdd(wj, xs[r], acc[r][j]);
        }
    }

    const F4 d4;
    for (int r = 0; r < R; ++r) {
        if constexpr (W == 1) {
            out[r * out_stride] = sum_lanes(acc[r][0]);
        } else if constexpr (W == 4) {
            hn::StoreU(sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]), d4, out + r * out_stride);
        } else {
            for (int j = 0; j < W; j += 4) {
                const auto at = [&](int l) HWY_ATTR { return acc[r][l < W ? l : W - 1]; };
                HWY_ALIGN float sums[4];
                hn::Store(sum4(at(j), at(j + 1), at(j + 2), at(j + 3)), d4, sums);
                for (int l = 0; l < 4 && j + l < W; ++l) out[r * out_stride + j + l] = sums[l];
            }
        }
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_DOT_INL_H
