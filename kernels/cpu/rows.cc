/// Row-wise moves: add and gather.

#include <cstring>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void add_row(float* x, const float* y, int64_t n) {
    const F d;
    map_row(x, x, n, [&](Vf v, int64_t i) HWY_ATTR {
        return hn::Add(v, i + kLanes <= n ? hn::LoadU(d, y + i) : load_n(d, y + i, n - i));
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(add_row);

void add(const Tensor& x, const Tensor& y) {
    const Matrix<float> a = x.as<float>();
    const Matrix<const float> b = y.as<const float>();
    const bool bias = b.rows == 1;
    for_rows(a.rows, a.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) HWY_DYNAMIC_DISPATCH(add_row)(a.row(r), b.row(bias ? 0 : r), a.cols);
    });
}

void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = x.as<const float>();
    const Matrix<const int32_t> row = rows.as<const int32_t>();
    for (int64_t i = 0; i < o.rows; ++i) {
        const int64_t r = *row.row(i);
        check(r >= 0 && r < in.rows, "gather_rows: row {} requested, x has {}", r, in.rows);
        std::memcpy(o.row(i), in.row(r), static_cast<size_t>(o.cols) * sizeof(float));
    }
}

}  // namespace trireme
#endif  // HWY_ONCE
