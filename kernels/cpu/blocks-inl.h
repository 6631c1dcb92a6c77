/// Blocks of quantised weights to f32 or bf16, 16 elements at a time. The values of weights that were loaded are those
/// of dequantise() (model/files/dequantise.h), bit for bit; model/files describes the formats.
#if defined(TRIREME_KERNELS_CPU_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_BLOCKS_INL_H
#undef TRIREME_KERNELS_CPU_BLOCKS_INL_H
#else
#define TRIREME_KERNELS_CPU_BLOCKS_INL_H
#endif

#include "kernels/cpu/simd-inl.h"
#include "runtime/stored_type.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

using Bytes = hn::CappedTag<uint8_t, 16>;
using Vb = hn::Vec<Bytes>;
static_assert(hn::MaxLanes(Bytes()) == 16, "16 elements have a byte each");

HWY_INLINE Vb load_bytes(const uint8_t* p) {
    return hn::LoadU(Bytes(), p);
}
HWY_INLINE Vb low_halves(Vb v) {
    return hn::And(v, hn::Set(Bytes(), 15));
}
HWY_INLINE Vb high_halves(Vb v) {
    return hn::ShiftRight<4>(v);
}
/// Two bits of each byte, from bit `shift` on.
HWY_INLINE Vb two_bits(Vb v, int shift) {
    return hn::And(hn::ShiftRightSame(v, shift), hn::Set(Bytes(), 3));
}
/// v - zero, as signed numbers.
HWY_INLINE Vb minus(Vb v, int zero) {
    return hn::Sub(v, hn::Set(Bytes(), static_cast<uint8_t>(zero)));
}
HWY_INLINE float half_float(const uint8_t* p) {
    HWY_ALIGN f16 lanes[4] = {};
    std::memcpy(static_cast<void*>(lanes), p, sizeof(f16));
    return hn::GetLane(load(hn::CappedTag<float, 4>(), lanes));
}

/// Writes 16 values code * scale + offset, with signed codes; without an offset the product alone.
template <bool kOffset, class T>
HWY_INLINE void write_values(Vb codes, float scale, float offset, T* out) {
    const F d;
    const hn::Rebind<int8_t, F> small;
    HWY_ALIGN int8_t bytes[16];
    hn::StoreU(codes, Bytes(), reinterpret_cast<uint8_t*>(bytes));
    for (int64_t i = 0; i < 16; i += kLanes) {
        const Vf x = hn::ConvertTo(d, hn::PromoteTo(I(), hn::LoadU(small, bytes + i)));
        const Vf product = hn::Mul(x, hn::Set(d, scale));
        store_rounded(d, kOffset ? hn::Add(product, hn::Set(d, offset)) : product, out + i);
    }
}

HWY_INLINE Vb looked_up(const int8_t (&table)[16], Vb codes) {
    return hn::TableLookupBytes(load_bytes(reinterpret_cast<const uint8_t*>(table)), codes);
}

/// 16 where bit `first` + i of `bits` is set, for byte i.
HWY_INLINE Vb fifth_bits(uint32_t bits, int first) {
    alignas(16) constexpr uint8_t kWhich[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    alignas(16) constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const hn::CappedTag<uint32_t, 4> words;
    const Vb all = hn::BitCast(Bytes(), hn::Set(words, bits >> first));
    const Vb mine = hn::TableLookupBytes(all, load_bytes(kWhich)), bit = load_bytes(kBit);
    return hn::IfThenElseZero(hn::Eq(hn::And(mine, bit), bit), hn::Set(Bytes(), 16));
}

/// Q4_0, Q4_1, Q5_0, Q5_1.
template <bool kFive, bool kOffset, class T>
HWY_INLINE void small_block(const uint8_t* b, T* out) {
    constexpr int kZero = kOffset ? 0 : kFive ? 16 : 8;
    const uint8_t* q = b + 2 + (kOffset ? 2 : 0) + (kFive ? 4 : 0);
    const Vb both = load_bytes(q);
    Vb low = low_halves(both), high = high_halves(both);
    if constexpr (kFive) {
        uint32_t fifth;
        std::memcpy(&fifth, q - 4, sizeof fifth);
        low = hn::Or(low, fifth_bits(fifth, 0));
        high = hn::Or(high, fifth_bits(fifth, 16));
    }
    const float d = half_float(b), m = kOffset ? half_float(b + 2) : 0;
    write_values<kOffset>(minus(low, kZero), d, m, out);
    write_values<kOffset>(minus(high, kZero), d, m, out + 16);
}

template <class T>
HWY_INLINE void q8_0_block(const uint8_t* b, T* out) {
    const float d = half_float(b);
    for (int64_t i = 0; i < 32; i += 16) write_values<false>(load_bytes(b + 2 + i), d, 0, out + i);
}

/// Two runs of 16 codes that `table` gives.
template <class T>
HWY_INLINE void coded(const uint8_t* q, const int8_t (&table)[16], float scale, T* out) {
    const Vb both = load_bytes(q);
    write_values<false>(looked_up(table, low_halves(both)), scale, 0, out);
    write_values<false>(looked_up(table, high_halves(both)), scale, 0, out + 16);
}

template <class T>
HWY_INLINE void mxfp4_block(const uint8_t* b, T* out) {
    coded(b + 1, kE2m1Values, e8m0_half(b[0]), out);
}

template <class T>
HWY_INLINE void int4_block(const uint8_t* b, T* out) {
    uint32_t word;
    std::memcpy(&word, b, sizeof word);
    const auto [scale, zero] = int4_scale(word);
    const Vb both = load_bytes(b + 4);
    write_values<false>(minus(low_halves(both), zero), scale, 0, out);
    write_values<false>(minus(high_halves(both), zero), scale, 0, out + 16);
}

template <class T>
HWY_INLINE void fp8_block(const uint8_t* b, T* out) {
    const F d;
    HWY_ALIGN f16 halves[32];
    for (int i = 0; i < 32; ++i) halves[i] = f16::from_bits(e4m3_as_half(b[4 + i]));
    float scale;
    std::memcpy(&scale, b, sizeof scale);
    for (int64_t i = 0; i < 32; i += kLanes) {
        const Vf value = hn::Mul(load(d, halves + i), hn::Set(d, 256.0F));
        store_rounded(d, hn::Mul(value, hn::Set(d, scale)), out + i);
    }
}

template <class T>
HWY_INLINE void q2_k_block(const uint8_t* b, T* out) {
    const float d = half_float(b + 80), dmin = half_float(b + 82);
    for (int g = 0; g < 16; ++g) {
        const float scale = d * static_cast<float>(b[g] & 15), min = dmin * static_cast<float>(b[g] >> 4);
        const Vb codes = two_bits(load_bytes(b + 16 + g / 8 * 32 + g % 2 * 16), g / 2 % 4 * 2);
        write_values<true>(codes, scale, -min, out + g * 16);
    }
}

template <class T>
HWY_INLINE void q3_k_block(const uint8_t* b, T* out) {
    const float d = half_float(b + 108);
    const uint8_t* s = b + 96;
    for (int g = 0; g < 16; ++g) {
        const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = (s[8 + g % 4] >> (g / 4 * 2)) & 3;
        const float scale = d * static_cast<float>((low | high << 4) - 32);
        const Vb bit = hn::Set(Bytes(), static_cast<uint8_t>(1 << (g / 2)));
        const Vb third = hn::And(load_bytes(b + g % 2 * 16), bit);
        const Vb four = hn::IfThenElseZero(hn::Eq(third, hn::Zero(Bytes())), hn::Set(Bytes(), 4));
        const Vb codes = two_bits(load_bytes(b + 32 + g / 8 * 32 + g % 2 * 16), g / 2 % 4 * 2);
        write_values<false>(hn::Sub(codes, four), scale, 0, out + g * 16);
    }
}

/// Q4_K, Q5_K.
template <bool kFive, class T>
HWY_INLINE void k_block(const uint8_t* b, T* out) {
    const float d = half_float(b), dmin = half_float(b + 2);
    const uint8_t *s = b + 4, *fifth = b + 16, *q = fifth + (kFive ? 32 : 0);
    for (int g = 0; g < 8; ++g) {
        const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
        const int min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
        for (int half = 0; half < 2; ++half) {
            const Vb both = load_bytes(q + g / 2 * 32 + half * 16);
            Vb codes = g % 2 == 0 ? low_halves(both) : high_halves(both);
            if constexpr (kFive) {
                const Vb bit = hn::Set(Bytes(), static_cast<uint8_t>(1 << g));
                const Vb mine = hn::And(load_bytes(fifth + half * 16), bit);
                codes = hn::Or(codes, hn::IfThenElseZero(hn::Eq(mine, bit), hn::Set(Bytes(), 16)));
            }
            write_values<true>(codes, d * static_cast<float>(scale), -(dmin * static_cast<float>(min)),
                               out + g * 32 + half * 16);
        }
    }
}

template <class T>
HWY_INLINE void q6_k_block(const uint8_t* b, T* out) {
    const float d = half_float(b + 208);
    for (int g = 0; g < 16; ++g) {  // runs of 16: two in a run of 32 that shares a shift
        const int half = g / 8, run = g / 2 % 4, at = g % 2 * 16;
        const Vb both = load_bytes(b + half * 64 + run % 2 * 32 + at);
        const Vb low = run < 2 ? low_halves(both) : high_halves(both);
        const Vb high = hn::ShiftLeft<4>(two_bits(load_bytes(b + 128 + half * 32 + at), 2 * run));
        const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + g]));
        write_values<false>(minus(hn::Or(low, high), 32), scale, 0, out + g * 16);
    }
}

template <class T>
HWY_INLINE void iq4_xs_block(const uint8_t* b, T* out) {
    const float d = half_float(b);
    const uint32_t high = uint32_t{b[2]} | uint32_t{b[3]} << 8;
    for (int g = 0; g < 8; ++g) {
        const int low = g % 2 == 0 ? b[4 + g / 2] & 15 : b[4 + g / 2] >> 4;
        const int scale = (low | static_cast<int>(high >> (2 * g) & 3) << 4) - 32;
        coded(b + 8 + g * 16, kUnevenValues, d * static_cast<float>(scale), out + g * 32);
    }
}

/// Decodes n elements, whole blocks, from `blocks` to f32 or, rounded, to bf16.
template <class T>
void decode_blocks(StoredType type, const uint8_t* blocks, int64_t n, T* out) {
    const BlockLayout layout = layout_of(type);
    const auto all = [&](const auto& block) HWY_ATTR {
        for (int64_t i = 0; i < n; i += layout.elements, blocks += layout.bytes) block(blocks, out + i);
    };
    switch (type) {
        case StoredType::kQ4_0:
            return all([](const uint8_t* b, T* to) HWY_ATTR { small_block<false, false>(b, to); });
        case StoredType::kQ4_1:
            return all([](const uint8_t* b, T* to) HWY_ATTR { small_block<false, true>(b, to); });
        case StoredType::kQ5_0:
            return all([](const uint8_t* b, T* to) HWY_ATTR { small_block<true, false>(b, to); });
        case StoredType::kQ5_1:
            return all([](const uint8_t* b, T* to) HWY_ATTR { small_block<true, true>(b, to); });
        case StoredType::kQ8_0:
            return all([](const uint8_t* b, T* to) HWY_ATTR { q8_0_block(b, to); });
        case StoredType::kIQ4_NL:
            return all([](const uint8_t* b, T* to) HWY_ATTR { coded(b + 2, kUnevenValues, half_float(b), to); });
        case StoredType::kMXFP4:
            return all([](const uint8_t* b, T* to) HWY_ATTR { mxfp4_block(b, to); });
        case StoredType::kQ2_K:
            return all([](const uint8_t* b, T* to) HWY_ATTR { q2_k_block(b, to); });
        case StoredType::kQ3_K:
            return all([](const uint8_t* b, T* to) HWY_ATTR { q3_k_block(b, to); });
        case StoredType::kQ4_K:
            return all([](const uint8_t* b, T* to) HWY_ATTR { k_block<false>(b, to); });
        case StoredType::kQ5_K:
            return all([](const uint8_t* b, T* to) HWY_ATTR { k_block<true>(b, to); });
        case StoredType::kQ6_K:
            return all([](const uint8_t* b, T* to) HWY_ATTR { q6_k_block(b, to); });
        case StoredType::kIQ4_XS:
            return all([](const uint8_t* b, T* to) HWY_ATTR { iq4_xs_block(b, to); });
        case StoredType::kInt4:
            return all([](const uint8_t* b, T* to) HWY_ATTR { int4_block(b, to); });
        case StoredType::kFP8:
            return all([](const uint8_t* b, T* to) HWY_ATTR { fp8_block(b, to); });
        case StoredType::kF32:
        case StoredType::kF16:
        case StoredType::kBF16:
            return;  // callers have checked that the type has blocks
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_BLOCKS_INL_H
