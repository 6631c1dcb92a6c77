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

/// e^x for x <= 0, within 2 ulp; 0 below -87, where results would become subnormal; NaN remains NaN.
HWY_INLINE Vf exp_negative(F d, Vf x) {
    // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to the integer n and leaves it in the lowest bits.
    const Vf shift = hn::Set(d, 12582912.0f);
    const Vf shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
    const Vf n = hn::Sub(shifted, shift);
    Vf r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);  // upper part of ln 2: n times it is exact
    r = hn::NegMulAdd(n, hn::Set(d, 1.42860682e-6f), r);
    // e^r = 1 + r + r^2 p(r), p the minimax polynomial: relative error 3.1e-9.
    Vf p = hn::MulAdd(r, hn::Set(d, 1.38146162e-3f), hn::Set(d, 8.36871751e-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.16683890e-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.66665211e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 4.99999940e-1f));
    p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
    const Vf scale = hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::BitCast(U(), shifted)), hn::Set(U(), 0x3f800000u)));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, scale));
}

void swiglu_row(const float* gate, const float* up, float* out, int64_t n) {
    const F d;
    map_row(gate, out, n, [&](Vf g, int64_t i) HWY_ATTR {
        const Vf u = i + kLanes <= n ? hn::LoadU(d, up + i) : load_n(d, up + i, n - i);
        // g sigmoid(g), through e^-|g|: nothing overflows.
        const Vf e = exp_negative(d, hn::Neg(hn::Abs(g)));
        const Vf one = hn::Set(d, 1.0f), numerator = hn::Mul(g, hn::IfThenElse(hn::Lt(g, hn::Zero(d)), e, one));
        return hn::Mul(hn::Div(numerator, hn::Add(one, e)), u);
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
