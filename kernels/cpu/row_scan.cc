#include "kernels/cpu/row_scan.h"

#include <bit>

#include "kernels/distribution.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_scan.cc"
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
    found.top = x[at];  // the sign of the first zero
    return found;
}

/// power_of_two of kernels/power_of_two.h, operation by operation: the same bits.
HWY_INLINE Vf power_of_two_lanes(Vf x) {
    const F d;
    const auto set = [&](float c) HWY_ATTR { return hn::Set(d, c); };
    const Vf rounded = hn::Add(x, set(kRounder)), f = hn::Sub(x, hn::Sub(rounded, set(kRounder)));
    Vf p = set(power_term(0));
    for (int i = 1; i < kPowerTermCount; ++i) p = hn::Add(hn::Mul(p, f), set(power_term(i)));
    const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(U(), rounded)), hn::Set(U(), 0x3f800000u));
    return hn::Mul(p, hn::BitCast(d, exponent));
}

uint64_t row_weight_body(const float* x, int64_t n, float top, float scale) {
    const F d;
    const hn::Repartition<double, F> wide;
    const hn::Half<F> half;
    const hn::RebindToUnsigned<decltype(wide)> whole;
    // A double below 2^52, plus 2^52, has its whole part in the lowest bits.
    const auto first_bits = hn::Set(wide, 0x1p52);
    const auto mask = hn::Set(whole, (uint64_t{1} << 52) - 1);
    auto sum = hn::Zero(whole);
    const auto add = [&](auto floats) HWY_ATTR {
        const auto w = hn::Floor(hn::PromoteTo(wide, floats));
        sum = hn::Add(sum, hn::And(mask, hn::BitCast(whole, hn::Add(w, first_bits))));
    };
    const Vf limit = hn::Set(d, kLeastPower - 1), first_weight = hn::Set(d, SamplingRule::kFirstWeight);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Vf below = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, top));
        const Vf power = hn::IfThenZeroElse(hn::Eq(below, hn::Zero(d)), hn::Mul(below, hn::Set(d, scale)));
        // Clamped elements have weights below 1, which are rounded down to 0.
        const Vf w = hn::Mul(power_of_two_lanes(hn::Max(power, limit)), first_weight);
        add(hn::LowerHalf(half, w));
        add(hn::UpperHalf(half, w));
    }
    HWY_ALIGN uint64_t lanes[hn::MaxLanes(decltype(whole)())];
    hn::Store(sum, whole, lanes);
    uint64_t total = 0;
    for (const uint64_t lane : lanes) total += lane;
    for (; i < n; ++i) total += weight_of(x[i], top, scale);
    return total;
}

int64_t row_keys_body(const float* x, int64_t n, int64_t first_id, float from, float to, uint64_t* keys) {
    const F d;
    const Vf least = hn::Set(d, from), end = hn::Set(d, to);
    int64_t found = 0, i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Vf v = hn::LoadU(d, x + i);
        const auto in = hn::And(hn::Ge(v, least), hn::Lt(v, end));
        uint64_t bits = 0;
        hn::StoreMaskBits(d, in, reinterpret_cast<uint8_t*>(&bits));
        for (; bits != 0; bits &= bits - 1) {
            const int64_t j = i + std::countr_zero(bits);
            keys[found++] = order_key(x[j], first_id + j);
        }
    }
    for (; i < n; ++i) {
        if (x[i] >= from && x[i] < to) keys[found++] = order_key(x[i], first_id + i);
    }
    return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(row_top_body);
HWY_EXPORT(row_weight_body);
HWY_EXPORT(row_keys_body);

RowTop row_top(const float* x, int64_t n) {
    return HWY_DYNAMIC_DISPATCH(row_top_body)(x, n);
}
uint64_t row_weight(const float* x, int64_t n, float top, float scale) {
    return HWY_DYNAMIC_DISPATCH(row_weight_body)(x, n, top, scale);
}
int64_t row_keys(const float* x, int64_t n, int64_t first_id, float from, float to, uint64_t* keys) {
    return HWY_DYNAMIC_DISPATCH(row_keys_body)(x, n, first_id, from, to, keys);
}

}  // namespace trireme
#endif  // HWY_ONCE
