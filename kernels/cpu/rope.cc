#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// One head: (a, b) = (x[i], x[i + half]) becomes (a cos - b sin, b cos + a sin). half is a multiple of 4.
template <class D>
HWY_INLINE void rotate(D d, float* x, const float* cos, const float* sin, int64_t half, int64_t i) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, x + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i);
}

void rope_row(float* x, const float* cos_sin, int64_t heads, int64_t head_dim) {
    const int64_t half = head_dim / 2;
    for (int64_t h = 0; h < heads; ++h, x += head_dim) {
        int64_t i = 0;
        for (; i + kLanes <= half; i += kLanes) rotate(F(), x, cos_sin, cos_sin + half, half, i);
        for (; i < half; i += 4) rotate(F4(), x, cos_sin, cos_sin + half, half, i);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(rope_row);

void rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) {
    const Matrix<float> m = x.as<float>();
    const Matrix<const float> table = cos_sin.as<const float>();
    for_rows(m.rows, m.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            HWY_DYNAMIC_DISPATCH(rope_row)(m.row(r), table.row(r), m.cols / head_dim, head_dim);
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
