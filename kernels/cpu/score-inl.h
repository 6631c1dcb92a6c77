/// Scores of many query vectors against a tile's keys, for prefill attention and for attention weights per key.
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
inline constexpr int64_t kVectorBlock = 96;                // query vectors whose scores are kept at once
static_assert(kVectorBlock % 6 == 0, "register tiles have 6 rows");
inline constexpr int64_t kRotatedRows = 64;  // keys that are rotated at once, before they are packed

/// Floats that pack_rotated needs for heads of `dim` elements.
inline int64_t tile_panels(int64_t dim) {
    return (kTileTokens + kRotatedRows + kKeyBlock) * ((dim + 15) / 16 * 16);
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

static_assert(kRotatedRows % kTall == 0, "panels that are packed kRotatedRows at a time are strips of one multiply");
static_assert(kTileTokens % (2 * kLanes) == 0, "a tile's panels have no columns beyond its tokens");
static_assert(kScoreStride >= kTileTokens + 2 * kLanes, "rows of scores have room for two more vectors");

/// Rotates the first `count` keys of a tile's head, key i by angles.row(i), and transposes them for score_tile.
template <class T>
void pack_rotated(const T* keys, int64_t count, int64_t dim, const Matrix<const float>& angles, float* panels) {
    const int64_t stride = (dim + 15) / 16 * 16;
    float* rotated = panels + kTileTokens * stride;
    using Element = typename KeyRows<T>::Element;
    KeyRows<T> rows(keys, dim, reinterpret_cast<Element*>(rotated + kRotatedRows * stride), stride);
    for (int64_t first = 0; first < count; first += kRotatedRows) {
        const int64_t n = std::min(kRotatedRows, count - first);
        for (int64_t i = 0; i < n; ++i) {
            rotated_row(rows.row(first + i), angles.row(first + i), dim, rotated + i * stride, stride);
        }
        pack_transposed(rotated, stride, n, dim, panels + first * dim, kTall, Upcoming{});
    }
}

/// Prepares the first `count` keys of a tile's head for score_tile, once for all query vectors: rotated and packed
/// where there are angles, widened if they are q8_0. Others are read in place. `panels`: tile_panels() floats.
template <class T>
void prepare_tile(const T* keys, int64_t count, int64_t dim, const Matrix<const float>& angles, float* panels) {
    if (angles.data != nullptr) return pack_rotated(keys, count, dim, angles, panels);
    if constexpr (std::is_same_v<T, q8_0>) widen_keys(keys, count, dim, panels);
}

/// scores [rows, kScoreStride] = q keys^T for these keys. `rotated`: there were angles.
template <class T>
void score_tile(const float* q, int64_t stride, int64_t rows, const T* keys, int64_t count, int64_t dim, bool rotated,
                const float* panels, float* scores) {
    if (rotated) return multiply_panels<false>(q, stride, rows, panels, dim, scores, kScoreStride, count, kTall);
    if constexpr (std::is_same_v<T, q8_0>) {
        multiply_keys(q, stride, rows, panels, count, dim, scores, kScoreStride, kTall);
    } else {
        multiply_keys(q, stride, rows, keys, count, dim, scores, kScoreStride, kTall);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SCORE_INL_H
