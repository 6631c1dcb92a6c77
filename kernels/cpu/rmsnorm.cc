#include <cmath>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rmsnorm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Four partial sums, so that additions do not wait for each other; their order depends on n alone.
float sum_of_squares(const float* x, int64_t n) {
    const F d;
    Vf s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        const Vf x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + kLanes);
        const Vf x2 = hn::LoadU(d, x + i + 2 * kLanes), x3 = hn::LoadU(d, x + i + 3 * kLanes);
        s0 = hn::MulAdd(x0, x0, s0);
        s1 = hn::MulAdd(x1, x1, s1);
        s2 = hn::MulAdd(x2, x2, s2);
        s3 = hn::MulAdd(x3, x3, s3);
    }
    for (; i < n; i += kLanes) {
        const Vf v = i + kLanes <= n ? hn::LoadU(d, x + i) : load_n(d, x + i, n - i);
        s0 = hn::MulAdd(v, v, s0);
    }
    return sum_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

void rmsnorm_row(const float* x, const float* weight, float eps, float* out, int64_t n) {
    const F d;
    const double mean = static_cast<double>(sum_of_squares(x, n)) / static_cast<double>(n);
    const Vf scale = hn::Set(d, static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(eps))));
    map_row(x, out, n, [&](Vf v, int64_t i) HWY_ATTR {
        const Vf w = i + kLanes <= n ? hn::LoadU(d, weight + i) : load_n(d, weight + i, n - i);
        return hn::Mul(hn::Mul(v, scale), w);
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(rmsnorm_row);

void rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = x.as<const float>();
    const float* w = weight.as<const float>().data;
    const int64_t n = weight.rows();
    for_rows(o.rows, o.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            for (int64_t c = 0; c < o.cols; c += n) {
                HWY_DYNAMIC_DISPATCH(rmsnorm_row)(in.row(r) + c, w, eps, o.row(r) + c, n);
            }
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
