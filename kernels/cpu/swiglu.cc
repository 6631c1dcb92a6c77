#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/swiglu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void swiglu_row(const float* gate, const float* up, float* out, int64_t n) {
    const F d;
    map_row(gate, out, n, [&](Vf g, int64_t i) HWY_ATTR {
        const Vf u = i + kLanes <= n ? hn::LoadU(d, up + i) : load_n(d, up + i, n - i);
        return hn::Mul(hn::Div(g, hn::Add(hn::Set(d, 1.0f), exp(d, hn::Neg(g)))), u);
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(swiglu_row);

void swiglu(const Tensor& out, const Tensor& gate_up) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = gate_up.as<const float>();
    for_rows(o.rows, 4 * o.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            HWY_DYNAMIC_DISPATCH(swiglu_row)(in.row(r), in.row(r) + o.cols, o.row(r), o.cols);
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
