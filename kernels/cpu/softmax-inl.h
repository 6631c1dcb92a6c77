/// Softmax of one tile's scores.
#if defined(TRIREME_KERNELS_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#undef TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#else
#define TRIREME_KERNELS_CPU_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <limits>

#include "kernels/cpu/simd-inl.h"
#include "kernels/power_of_two.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// x = 2^x for x <= 0, within 2 ulp; 0 below -125, where results would soon become subnormal; NaN remains NaN. N
/// vectors go step by step: one alone is a chain of dependent operations that outlasts the core's look-ahead.
template <int N>
HWY_INLINE void exp2_negative(F d, Vf (&x)[N]) {
    const auto set = [&](float c) HWY_ATTR { return hn::Set(d, c); };
    const Vf shift = set(kRounder);
    Vf rounded[N], f[N], p[N];
    for (int i = 0; i < N; ++i) rounded[i] = hn::Add(x[i], shift);
    for (int i = 0; i < N; ++i) f[i] = hn::Sub(x[i], hn::Sub(rounded[i], shift));
    for (int i = 0; i < N; ++i) p[i] = set(power_term(0));
    for (int term = 1; term < kPowerTermCount; ++term) {
        for (int i = 0; i < N; ++i) p[i] = hn::MulAdd(p[i], f[i], set(power_term(term)));
    }
    for (int i = 0; i < N; ++i) {
        const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(U(), rounded[i])), hn::Set(U(), 0x3f800000u));
        p[i] = hn::Mul(p[i], hn::BitCast(d, exponent));
    }
    for (int i = 0; i < N; ++i) x[i] = hn::IfThenZeroElse(hn::Lt(x[i], set(-125.0f)), p[i]);
}

/// Factor of scores in addition to 1 / sqrt(head_dim), so that softmax uses powers of 2.
inline constexpr float kLog2E = 1.44269504f;

/// The largest of n scores. A row has room for one more vector after its scores; it is filled up with -inf.
HWY_INLINE float row_max(float* s, int64_t n) {
    const F d;
    const Vf none = hn::Set(d, -std::numeric_limits<float>::infinity());
    if (n % kLanes != 0) hn::StoreU(none, d, s + n);
    Vf even = none, odd = none;
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        even = hn::Max(even, hn::LoadU(d, s + i));
        odd = hn::Max(odd, hn::LoadU(d, s + i + kLanes));
    }
    for (; i < n; i += kLanes) even = hn::Max(even, hn::LoadU(d, s + i));
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
}

/// s[i] = 2^(s[i] - max) for i < n, zeros up to the next whole vector; returns the sum. Slot i is added in lane i %
/// kLanes of vector i / kLanes % 2, and slots beyond n add nothing: the bits do not depend on how full the tile is.
HWY_INLINE float exp_row(float* s, int64_t n, float max) {
    const F d;
    const Vf top = hn::Set(d, max);
    Vf even = hn::Zero(d), odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        Vf x[2] = {hn::Sub(hn::LoadU(d, s + i), top), hn::Sub(hn::LoadU(d, s + i + kLanes), top)};
        exp2_negative(d, x);
        hn::StoreU(x[0], d, s + i);
        hn::StoreU(x[1], d, s + i + kLanes);
        even = hn::Add(even, x[0]);
        odd = hn::Add(odd, x[1]);
    }
    if (i < n) {  // with one vector left, its neighbour is computed from -inf
        const bool one = i + kLanes >= n;
        const Vf none = hn::Set(d, -std::numeric_limits<float>::infinity());
        Vf x[2] = {hn::Sub(hn::LoadU(d, s + i), top), one ? none : hn::Sub(hn::LoadU(d, s + i + kLanes), top)};
        exp2_negative(d, x);
        hn::StoreU(x[0], d, s + i);
        if (!one) hn::StoreU(x[1], d, s + i + kLanes);
        even = hn::Add(even, x[0]);
        odd = hn::Add(odd, x[1]);
    }
    return sum_lanes(hn::Add(even, odd));
}

/// Merges (max, sum, acc) of the next tile into those of the tiles before. `dim` is whole vectors.
HWY_INLINE void merge_tile(float& max, float& sum, float* acc, float next_max, float next_sum, const float* next_acc,
                           int64_t dim) {
    const F d;
    const float top = std::max(max, next_max);
    Vf scale[2] = {hn::Set(d, max - top), hn::Set(d, next_max - top)};
    exp2_negative(d, scale);
    max = top;
    sum = hn::GetLane(hn::MulAdd(hn::Set(d, next_sum), scale[1], hn::Mul(hn::Set(d, sum), scale[0])));
    for (int64_t i = 0; i < dim; i += kLanes) {
        const Vf old = hn::Mul(hn::LoadU(d, acc + i), scale[0]);
        hn::StoreU(hn::MulAdd(hn::LoadU(d, next_acc + i), scale[1], old), d, acc + i);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SOFTMAX_INL_H
