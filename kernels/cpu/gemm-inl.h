/// The multiply of prefill: packed panels and a register tile. Used by matmul and attention alike.
#if defined(TRIREME_KERNELS_CPU_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_GEMM_INL_H
#undef TRIREME_KERNELS_CPU_GEMM_INL_H
#else
#define TRIREME_KERNELS_CPU_GEMM_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

// A register tile is 6 rows by kPanelVectors vectors: 12 accumulators of 16 registers, or 24 of AVX-512's 32.
inline constexpr int kTileRows = 6;
inline constexpr int kPanelVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
inline constexpr int64_t kPanel = kPanelVectors * kLanes;

/// Columns of the panel that begins at column `at` of n: whole vectors, the last one padded.
HWY_INLINE int64_t panel_width(int64_t at, int64_t n) {
    const int64_t left = n - at;
    return left >= kPanel                            ? kPanel
           : left > kPanel / 2 || kPanelVectors == 2 ? (left > kLanes ? kPanel : kLanes)
                                                     : (left > kLanes ? 2 * kLanes : kLanes);
}

/// c[i][j] (+)= sum_p a[i][p] b[p][j], p in order. a has `rows` rows lda apart, b is a panel [k][NV * kLanes].
template <int NV, bool kAdd>
HWY_INLINE void multiply_tile(const float* a, int64_t lda, int64_t rows, const float* b, int64_t k, float* c,
                              int64_t ldc, int64_t cols) {
    const F d;
    constexpr int64_t kWidth = NV * kLanes;
    HWY_ALIGN float edge[kTileRows * kWidth];
    const bool whole = rows == kTileRows && cols == kWidth;
    float* to = whole ? c : edge;
    const int64_t ldt = whole ? ldc : kWidth;

    const float* ai[kTileRows];
    for (int i = 0; i < kTileRows; ++i) ai[i] = a + std::min<int64_t>(i, rows - 1) * lda;
    Vf acc[kTileRows][NV];
    if (kAdd && !whole) {
        for (int64_t i = 0; i < rows; ++i) std::copy(c + i * ldc, c + i * ldc + cols, edge + i * kWidth);
    }
    for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < NV; ++j) acc[i][j] = kAdd ? hn::LoadU(d, to + i * ldt + j * kLanes) : hn::Zero(d);
    }
    for (int64_t p = 0; p < k; ++p) {
        Vf bj[NV];
        for (int j = 0; j < NV; ++j) bj[j] = hn::LoadU(d, b + p * kWidth + j * kLanes);
        for (int i = 0; i < kTileRows; ++i) {
            const Vf x = hn::Set(d, ai[i][p]);
            for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(x, bj[j], acc[i][j]);
        }
    }
    for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < NV; ++j) hn::StoreU(acc[i][j], d, to + i * ldt + j * kLanes);
    }
    if (!whole) {
        for (int64_t i = 0; i < rows; ++i) std::copy(edge + i * kWidth, edge + i * kWidth + cols, c + i * ldc);
    }
}

/// c [rows, cols] (+)= a [rows, k] times one panel `width` wide.
template <bool kAdd>
HWY_INLINE void multiply_panel(const float* a, int64_t lda, int64_t rows, const float* panel, int64_t width, int64_t k,
                               float* c, int64_t ldc, int64_t cols) {
    for (int64_t r = 0; r < rows; r += kTileRows) {
        const int64_t n = std::min<int64_t>(kTileRows, rows - r);
        const float* ar = a + r * lda;
        float* cr = c + r * ldc;
        if (width == kPanel) {
            multiply_tile<kPanelVectors, kAdd>(ar, lda, n, panel, k, cr, ldc, cols);
        } else if (width == 2 * kLanes) {
            multiply_tile<2, kAdd>(ar, lda, n, panel, k, cr, ldc, cols);
        } else {
            multiply_tile<1, kAdd>(ar, lda, n, panel, k, cr, ldc, cols);
        }
    }
}

/// Rows of 4 x 4, transposed: to[p * width + i] = from[i * stride + p].
template <class T>
HWY_INLINE void transpose4(const T* from, int64_t stride, float* to, int64_t width) {
    const F4 d;
    const hn::Repartition<double, F4> wide;
    const auto r0 = load(d, from), r1 = load(d, from + stride);
    const auto r2 = load(d, from + 2 * stride), r3 = load(d, from + 3 * stride);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * width);
}

/// Columns [0, k) of `rows` rows as a panel [k][width], f32; columns of the panel beyond `rows` are zero.
template <class T>
HWY_INLINE void pack_transposed(const T* from, int64_t stride, int64_t rows, int64_t k, float* panel, int64_t width) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const T* r = from + i * stride;
        int64_t p = 0;
        for (; p + 4 <= k; p += 4) transpose4(r + p, stride, panel + p * width + i, width);
        for (; p < k; ++p) {
            for (int64_t j = 0; j < 4; ++j) panel[p * width + i + j] = static_cast<float>(r[j * stride + p]);
        }
    }
    for (; i < width; ++i) {
        for (int64_t p = 0; p < k; ++p)
            panel[p * width + i] = i < rows ? static_cast<float>(from[i * stride + p]) : 0.0f;
    }
}

/// `rows` rows of n columns as panels of columns, one after the other: each [rows][its width], f32.
template <class T>
HWY_INLINE void pack_columns(const T* from, int64_t stride, int64_t rows, int64_t n, float* panels) {
    const F d;
    for (int64_t at = 0; at < n;) {
        const int64_t width = panel_width(at, n);
        for (int64_t r = 0; r < rows; ++r, panels += width) {
            const T* row = from + r * stride + at;
            for (int64_t j = 0; j < width; j += kLanes) {
                const int64_t left = n - at - j;
                hn::StoreU(left >= kLanes ? load(d, row + j)
                           : left > 0     ? load_n(d, row + j, left)
                                          : hn::Zero(d),
                           d, panels + j);
            }
        }
        at += width;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_GEMM_INL_H
