#include "kernels/cpu/row_top.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_top.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

RowTop row_top_body(const float* x, int64_t n) {
    const F d;
    Vf top = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto nan = hn::IsNaN(top);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Vf v = hn::LoadU(d, x + i);
        nan = hn::Or(nan, hn::IsNaN(v));
        top = hn::Max(top, v);
    }
    RowTop found = {hn::GetLane(hn::MaxOfLanes(d, top)), 0, !hn::AllFalse(d, nan)};
    for (; i < n; ++i) {
        found.nan |= x[i] != x[i];
        if (x[i] > found.top) found.top = x[i];
    }
    if (found.nan) return found;
    int64_t at = 0;
    for (const Vf wanted = hn::Set(d, found.top); at + kLanes <= n; at += kLanes) {
        if (!hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + at), wanted))) break;
    }
    while (at + 1 < n && x[at] != found.top) ++at;
    found.at = at;
    found.top = x[at];  // of two zeros the first one's sign
    return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(row_top_body);

RowTop row_top(const float* x, int64_t n) {
    return HWY_DYNAMIC_DISPATCH(row_top_body)(x, n);
}

}  // namespace trireme
#endif  // HWY_ONCE
