/// Softmax of one tile's scores.
#if defined(TRIREME_KERNELS_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#undef TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#else
#define TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#endif

#include <limits>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// s[i] = exp(s[i] - max), i < n; s is written up to the next whole vector (zeros). The sum's lanes are fixed by the
/// slot, and slots beyond n add nothing: the same bits however much of the tile is filled.
HWY_INLINE void softmax_row(float* s, int64_t n, float& max, float& sum) {
    const F d;
    for (int64_t i = n; i < round_up_lanes(n); ++i) s[i] = -std::numeric_limits<float>::infinity();
    Vf top = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < n; i += kLanes) top = hn::Max(top, hn::LoadU(d, s + i));
    max = hn::GetLane(hn::MaxOfLanes(d, top));
    const Vf m = hn::Set(d, max);
    Vf even = hn::Zero(d), odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        const Vf a = exp(d, hn::Sub(hn::LoadU(d, s + i), m)), b = exp(d, hn::Sub(hn::LoadU(d, s + i + kLanes), m));
        even = hn::Add(even, a);
        odd = hn::Add(odd, b);
        hn::StoreU(a, d, s + i);
        hn::StoreU(b, d, s + i + kLanes);
    }
    for (bool first = true; i < n; i += kLanes, first = false) {
        const Vf a = exp(d, hn::Sub(hn::LoadU(d, s + i), m));
        (first ? even : odd) = hn::Add(first ? even : odd, a);
        hn::StoreU(a, d, s + i);
    }
    sum = sum_lanes(hn::Add(even, odd));
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SOFTMAX_INL_H
