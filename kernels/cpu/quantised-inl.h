/// Rows of KV (kernels/kv.h) from f32, and q8_0 back to f32. An element of q8_0 is code * scale, which is exact: f32
/// arithmetic gives what an f32 cache with these elements gives.
#if defined(TRIREME_KERNELS_CPU_QUANTISED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_QUANTISED_INL_H
#undef TRIREME_KERNELS_CPU_QUANTISED_INL_H
#else
#define TRIREME_KERNELS_CPU_QUANTISED_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "kernels/cpu/kv_access.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// visit(T()) with the type of a KV row; q8_0() for kQ8_0.
template <class Visit>
HWY_INLINE void with_kv_type(DType type, const Visit& visit) {
    if (type == DType::kQ8_0) return visit(q8_0());
    with_type(type, visit);
}

/// Rounds n elements to f16, clamped to +-kMostF16. NaN remains NaN.
HWY_INLINE void saturate_row(const float* src, f16* dst, int64_t n) {
    const F d;
    const Vf most = hn::Set(d, kMostF16), least = hn::Set(d, -kMostF16);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        Vf v = hn::LoadU(d, src + i);  // both comparisons are false for NaN
        v = hn::IfThenElse(hn::Gt(v, most), most, v);
        v = hn::IfThenElse(hn::Lt(v, least), least, v);
        store_rounded(d, v, dst + i);
    }
    for (; i < n; ++i) dst[i] = f16(src[i] > kMostF16 ? kMostF16 : src[i] < -kMostF16 ? -kMostF16 : src[i]);
}

/// A scale in all lanes.
HWY_INLINE Vf scale_at(F d, const char* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    const hn::Rebind<hwy::float16_t, F> d16;
    return hn::PromoteTo(d, hn::BitCast(d16, hn::Set(hn::Rebind<uint16_t, F>(), bits)));
}
/// kLanes consecutive codes.
HWY_INLINE Vf codes_at(F d, const char* at) {
    const hn::Rebind<int8_t, F> d8;
    return hn::ConvertTo(d, hn::PromoteTo(I(), hn::LoadU(d8, reinterpret_cast<const int8_t*>(at))));
}
/// Byte `which` of each word.
HWY_INLINE Vf codes_of(F d, hn::Vec<I> words, int64_t which) {
    switch (which) {
        case 0:
            return hn::ConvertTo(d, hn::ShiftRight<24>(hn::ShiftLeft<24>(words)));
        case 1:
            return hn::ConvertTo(d, hn::ShiftRight<24>(hn::ShiftLeft<16>(words)));
        case 2:
            return hn::ConvertTo(d, hn::ShiftRight<24>(hn::ShiftLeft<8>(words)));
        default:
            return hn::ConvertTo(d, hn::ShiftRight<24>(words));
    }
}

/// Quantises a row of n elements, as llama.cpp's q8_0 does. A NaN makes its block NaN; infinities become the largest
/// value that a block can have.
HWY_INLINE void quantise_row(const float* from, char* row, int64_t n) {
    const F d;
    constexpr float kMost = 127 * kMostF16;
    const Vf most = hn::Set(d, kMost), least = hn::Set(d, -kMost);
    const hn::Rebind<int8_t, F> d8;
    for (int64_t b = 0; b < n / kQuantBlock; ++b) {
        const float* x = from + b * kQuantBlock;
        Vf top = hn::Zero(d);
        auto bad = hn::IsNaN(top);
        for (int64_t i = 0; i < kQuantBlock; i += kLanes) {
            const Vf v = hn::LoadU(d, x + i);
            bad = hn::Or(bad, hn::IsNaN(v));
            top = hn::Max(top, hn::Abs(hn::Min(hn::Max(v, least), most)));
        }
        const float scale = hn::GetLane(hn::MaxOfLanes(d, top)) / 127;
        const f16 stored = hn::AllFalse(d, bad) ? f16(scale) : f16::from_bits(0x7e00);
        const Vf inverse = hn::Set(d, stored.bits == 0 ? 0.0F : 1 / scale);
        for (int64_t i = 0; i < kQuantBlock; i += kLanes) {
            const Vf v = hn::Min(hn::Max(hn::LoadU(d, x + i), least), most);
            const auto nan = hn::IsNaN(hn::LoadU(d, x + i));
            const auto codes = hn::NearestInt(hn::IfThenZeroElse(nan, hn::Mul(v, inverse)));
            hn::StoreU(hn::DemoteTo(d8, codes), d8, reinterpret_cast<int8_t*>(row + b * kQuantBlock + i));
        }
        std::memcpy(row + n + 2 * b, &stored, sizeof(stored));
    }
    const auto padding = static_cast<int64_t>(row_bytes(DType::kQ8_0, n)) - n - n / kQuantBlock * 2;
    std::memset(row + n + n / kQuantBlock * 2, 0, static_cast<size_t>(padding));
}

/// The elements of a row.
HWY_INLINE void widen_row(const q8_0* row, int64_t n, float* to) {
    const F d;
    const char* codes = reinterpret_cast<const char*>(row);
    for (int64_t b = 0; b < n; b += kQuantBlock) {
        const Vf scale = scale_at(d, codes + n + b / kQuantBlock * 2);
        for (int64_t i = b; i < b + kQuantBlock; i += kLanes) {
            hn::StoreU(hn::Mul(codes_at(d, codes + i), scale), d, to + i);
        }
    }
}
/// A row that loads can read: the row itself, or its elements in `buffer`.
template <class T>
HWY_INLINE const T* readable_row(const T* row, int64_t /*n*/, float* /*buffer*/) {
    return row;
}
HWY_INLINE const float* readable_row(const q8_0* row, int64_t n, float* buffer) {
    widen_row(row, n, buffer);
    return buffer;
}

/// Bytes from the first word of a block of 16 keys to its word of elements [4 u, 4 u + 4); scales follow each 8 words.
constexpr int64_t word_place(int64_t u) {
    return u * kKeyBlock * 4 + u / (kQuantBlock / 4) * kKeyBlock * 2;
}

/// The elements of a block of 16 keys (kernels/key_order.h): [dim][16].
HWY_INLINE void widen_block(const q8_0* block, int64_t dim, float* to) {
    const F d;
    constexpr int64_t kWords = kQuantBlock / 4;
    for (int64_t k = 0; k < kKeyBlock; k += kLanes) {
        for (int64_t u = 0; u < dim / 4; ++u) {
            const q8_0* scales = block + word_place(u / kWords * kWords) + kKeyBlock * kQuantBlock + k * 2;
            const Vf scale = load(d, reinterpret_cast<const f16*>(scales));
            const auto four = hn::LoadU(I(), reinterpret_cast<const int32_t*>(block + word_place(u) + k * 4));
            for (int64_t e = 0; e < 4; ++e) {
                hn::StoreU(hn::Mul(codes_of(d, four, e), scale), d, to + (4 * u + e) * kKeyBlock + k);
            }
        }
    }
}

/// Writes the first n keys of these blocks as blocks of f32.
HWY_INLINE void widen_keys(const q8_0* blocks, int64_t n, int64_t dim, float* to) {
    const int64_t block = kKeyBlock * row_stride<q8_0>(dim);
    for (int64_t b = 0; b * kKeyBlock < n; ++b) widen_block(blocks + b * block, dim, to + b * kKeyBlock * dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_QUANTISED_INL_H
