/// Per-target building blocks over Highway: loads that widen, stores that round, sums in a fixed order.
/// Included once per target by foreach_target.h, hence the toggled guard.
#if defined(TRIREME_KERNELS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_SIMD_INL_H
#undef TRIREME_KERNELS_CPU_SIMD_INL_H
#else
#define TRIREME_KERNELS_CPU_SIMD_INL_H
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include <hwy/highway.h>

#include "runtime/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using Vf = hn::Vec<F>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F()));
static_assert(kLanes >= 4, "targets without 128-bit vectors are not built");
static_assert(16 % kLanes == 0, "rows that are padded to 16 elements are whole vectors");
static_assert(std::endian::native == std::endian::little, "pairs of bf16 and bits of masks are read as numbers");

HWY_INLINE int64_t round_up_lanes(int64_t n) {
    return (n + kLanes - 1) / kLanes * kLanes;
}

/// Prefetches the line at `p` into the second-level cache: the first is too small for what is prefetched, and allows
/// fewer misses in flight. On Zen 4 decode products, attention of heads of 128 elements and decode on two threads are
/// each 1.2 times as fast as with prefetches into the first (docs/results/ledger.md).
HWY_INLINE void prefetch(const void* p) {
    __builtin_prefetch(p, /*write=*/0, /*locality=*/2);
}

/// visit(T()) with the element type that `type` names.
template <class Visit>
HWY_INLINE void with_type(DType type, const Visit& visit) {
    switch (type) {
        case DType::kF16:
            return visit(f16());
        case DType::kBF16:
            return visit(bf16());
        default:
            return visit(float());
    }
}

// ---- loads: any weight or KV type to f32

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
    return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f16* p) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), reinterpret_cast<const hwy::float16_t*>(p)));
}
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* p) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), reinterpret_cast<const hwy::bfloat16_t*>(p)));
}

/// The first n < kLanes elements, then zeros. Reads no further.
template <class T>
HWY_INLINE Vf load_n(F d, const T* p, int64_t n) {
    HWY_ALIGN T buffer[kLanes] = {};
    std::memcpy(static_cast<void*>(buffer), p, static_cast<size_t>(n) * sizeof(T));
    return load(d, buffer);
}

/// The first n < kLanes lanes. Writes no further.
HWY_INLINE void store_n(F d, Vf v, float* p, int64_t n) {
    HWY_ALIGN float buffer[kLanes];
    hn::Store(v, d, buffer);
    std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(float));
}

/// Copies n elements, then writes zeros up to `padded`.
template <class T>
HWY_INLINE void copy_row(const T* from, int64_t n, T* to, int64_t padded) {
    std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(n) * sizeof(T));
    std::memset(static_cast<void*>(to + n), 0, static_cast<size_t>(padded - n) * sizeof(T));
}

/// to[i] = f(load at i) for i < n; the last lanes of a short vector are computed and dropped.
template <class T, class Map>
HWY_INLINE void map_row(const T* from, float* to, int64_t n, const Map& f) {
    const F d;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(load(d, from + i), i), d, to + i);
    if (i < n) store_n(d, f(load_n(d, from + i, n - i), i), to + i, n - i);
}

// ---- stores: f32 to any KV type, to nearest even

/// v rounded to bf16, still as f32. NaN remains NaN.
template <class D>
HWY_INLINE hn::Vec<D> round_to_bf16(D d, hn::Vec<D> v) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
    const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
    return hn::BitCast(d, hn::And(chosen, hn::Set(du, 0xffff0000u)));
}

HWY_INLINE void store_rounded(F d, Vf v, float* p) {
    hn::StoreU(v, d, p);
}
HWY_INLINE void store_rounded(F d, Vf v, bf16* p) {
    const hn::Rebind<uint16_t, F> d16;
    const auto upper = hn::ShiftRight<16>(hn::BitCast(U(), round_to_bf16(d, v)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(I(), upper)), d16, reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store_rounded(F d, Vf v, f16* p) {
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, F> d16;
    hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
#else  // Highway's emulation truncates
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, d, lanes);
    for (int64_t i = 0; i < kLanes; ++i) p[i] = f16(lanes[i]);
#endif
}

/// Rounds n floats into dst.
template <class T>
HWY_INLINE void round_row(const float* src, T* dst, int64_t n) {
    const F d;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_rounded(d, hn::LoadU(d, src + i), dst + i);
    for (; i < n; ++i) dst[i] = T(src[i]);
}

// ---- sums in one order per target

template <class D>
HWY_INLINE auto fold_to_block([[maybe_unused]] D d, hn::Vec<D> v) {
    if constexpr (hn::MaxLanes(D()) == 4) {
        return v;
    } else {
        const hn::Half<D> half;
        return fold_to_block(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    }
}

using F4 = hn::CappedTag<float, 4>;

/// {sum(a), sum(b), sum(c), sum(e)}; each sum has the same order in any of the four positions.
HWY_INLINE hn::Vec<F4> sum4(Vf a, Vf b, Vf c, Vf e) {
    const F d;
    const hn::Repartition<double, F> wide;
    const Vf ab =
        hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));  // per 128-bit block: a02 b02 a13 b13
    const Vf ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    const auto low = hn::InterleaveLower(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
    const auto high = hn::InterleaveUpper(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
    return fold_to_block(d, hn::Add(hn::BitCast(d, low), hn::BitCast(d, high)));
}

HWY_INLINE float sum_lanes(Vf v) {
    return hn::GetLane(sum4(v, v, v, v));
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SIMD_INL_H
