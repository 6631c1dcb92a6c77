#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/rotate-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void rope_row(float* x, const float* cos_sin, int64_t heads, int64_t head_dim) {
    for (int64_t h = 0; h < heads; ++h, x += head_dim) rotate_head(x, cos_sin, head_dim);
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
