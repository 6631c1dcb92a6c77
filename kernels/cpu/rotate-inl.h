/// RoPE of one head: the same bits for a new key and for one that attention rotates as it reads it.
#if defined(TRIREME_KERNELS_CPU_ROTATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_ROTATE_INL_H
#undef TRIREME_KERNELS_CPU_ROTATE_INL_H
#else
#define TRIREME_KERNELS_CPU_ROTATE_INL_H
#endif

#include "kernels/cpu/quantised-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// (a, b) = (x[i], x[i + half]) becomes (a cos - b sin, b cos + a sin). half is a multiple of 4.
template <class D>
HWY_INLINE void rotate_pairs(D d, float* x, const float* cos, const float* sin, int64_t half, int64_t i) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, x + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i);
}

/// cos_sin [head_dim]: cosines of the pairs, then sines.
HWY_INLINE void rotate_head(float* x, const float* cos_sin, int64_t head_dim) {
    const int64_t half = head_dim / 2;
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) rotate_pairs(F(), x, cos_sin, cos_sin + half, half, i);
    for (; i < half; i += 4) rotate_pairs(F4(), x, cos_sin, cos_sin + half, half, i);
}

/// to = the row, rotated; zeros up to `padded`.
template <class T>
HWY_INLINE void rotated_row(const T* row, const float* cos_sin, int64_t head_dim, float* to, int64_t padded) {
    map_row(row, to, head_dim, [](Vf x, int64_t) HWY_ATTR { return x; });
    for (int64_t i = head_dim; i < padded; ++i) to[i] = 0;
    rotate_head(to, cos_sin, head_dim);
}

HWY_INLINE void rotated_row(const q8_0* row, const float* cos_sin, int64_t head_dim, float* to, int64_t padded) {
    widen_row(row, head_dim, to);
    for (int64_t i = head_dim; i < padded; ++i) to[i] = 0;
    rotate_head(to, cos_sin, head_dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_ROTATE_INL_H
