/// Scores of many query vectors against a tile's keys: a prefill's attention, and what it adds up to for each key.
#if defined(TRIREME_KERNELS_CPU_SCORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_SCORE_INL_H
#undef TRIREME_KERNELS_CPU_SCORE_INL_H
#else
#define TRIREME_KERNELS_CPU_SCORE_INL_H
#endif

#include "kernels/cpu/kv_access.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/rotate-inl.h"

#ifndef TRIREME_KERNELS_CPU_SCORE_ONCE
#define TRIREME_KERNELS_CPU_SCORE_ONCE
namespace trireme {

inline constexpr int64_t kScoreStride = kTileTokens + 32;  // rows 1 KiB apart would share cache sets
inline constexpr int64_t kRotatedRows = 64;                // of keys that are rotated at once, before they are packed

/// Floats that pack_keys needs for heads of `dim` elements.
inline int64_t tile_panels(int64_t dim) {
    return (kTileTokens + kRotatedRows) * ((dim + 15) / 16 * 16);
}
template <class T>
Matrix<T> from_row(const Matrix<T>& m, int64_t row) {
    return m.data == nullptr ? m : Matrix<T>{m.row(row), m.rows - row, m.cols, m.stride};
}

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// The first `count` keys of a tile, transposed for score_packed: as they are, or as f32, the i-th rotated by
/// angles.row(i).
template <class T>
void pack_keys(const HeadRows<T>& keys, int64_t count, int64_t dim, const Matrix<const float>& angles, float* panels) {
    if (angles.data == nullptr) {
        return pack_transposed(keys.first, keys.stride, count, dim, reinterpret_cast<T*>(panels), kTall, Upcoming{});
    }
    const int64_t stride = (dim + 15) / 16 * 16;
    float* rotated = panels + kTileTokens * stride;
    for (int64_t first = 0; first < count; first += kRotatedRows) {
        const int64_t n = std::min(kRotatedRows, count - first);
        for (int64_t i = 0; i < n; ++i) {
            rotated_row(keys.row(first + i), angles.row(first + i), dim, rotated + i * stride, stride);
        }
        pack_transposed(rotated, stride, n, dim, panels + first * dim, kTall, Upcoming{});
    }
}

/// scores [rows, kScoreStride] = q keys^T, of `count` keys that pack_keys has packed from T.
template <class T>
void score_packed(const float* q, int64_t stride, int64_t rows, int64_t count, int64_t dim, bool rotated,
                  const float* panels, float* scores) {
    if (rotated) return multiply_panels<false>(q, stride, rows, panels, dim, scores, kScoreStride, count, kTall);
    multiply_panels<false>(q, stride, rows, reinterpret_cast<const T*>(panels), dim, scores, kScoreStride, count,
                           kTall);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SCORE_INL_H
