#pragma once
/// DType: the element types of tensors. Conversions to f16 and bf16 round to nearest, ties to even; NaN remains NaN.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/index.h"

namespace trireme {

/// kQ8_0 is a type of KV rows only: 8-bit codes with a scale for each 32 of them (row_bytes() in kernels/kv.h). No
/// tensor has it.
enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kI64, kU8, kQ8_0 };

/// Returns the bytes of one element; of kQ8_0, those of a code.
constexpr size_t size_of(DType t) {
    switch (t) {
        case DType::kF32:
        case DType::kI32:
            return 4;
        case DType::kF16:
        case DType::kBF16:
            return 2;
        case DType::kI64:
            return 8;
        case DType::kU8:
        case DType::kQ8_0:
            return 1;
    }
    return 0;
}

/// "f32", "f16", "bf16", "i32", "i64", "u8", "q8_0".
constexpr std::string_view name_of(DType t) {
    constexpr std::string_view names[] = {"f32", "f16", "bf16", "i32", "i64", "u8", "q8_0"};
    return names[index(t)];
}

/// IEEE binary16 as storage.
struct f16 {
    uint16_t bits = 0;

    f16() = default;
    constexpr explicit f16(float x) {
        const uint32_t u = std::bit_cast<uint32_t>(x);
        const uint32_t sign = (u >> 16) & 0x8000u;
        const uint32_t a = u & 0x7fffffffu;
        if (a >= 0x7f800000u) {  // infinity, or a quiet NaN with the upper part of its payload
            bits = static_cast<uint16_t>(sign | 0x7c00u | (a > 0x7f800000u ? 0x0200u | ((a >> 13) & 0x3ffu) : 0u));
        } else if (a >= 0x477ff000u) {  // 65520 and above round to infinity
            bits = static_cast<uint16_t>(sign | 0x7c00u);
        } else if (a >= 0x38800000u) {  // normal: re-bias, round on the 13 dropped bits
            const uint32_t r = a - 0x38000000u + 0xfffu + ((a >> 13) & 1u);
            bits = static_cast<uint16_t>(sign | (r >> 13));
        } else if (a >= 0x33000000u) {  // subnormal
            const uint32_t shift = 126u - (a >> 23);
            const uint32_t m = (a & 0x7fffffu) | 0x800000u;
            const uint32_t half = 1u << (shift - 1);
            const uint32_t q = m >> shift, rest = m & ((1u << shift) - 1);
            bits = static_cast<uint16_t>(sign | (q + (rest > half || (rest == half && (q & 1u)) ? 1u : 0u)));
        } else {
            bits = static_cast<uint16_t>(sign);
        }
    }
    constexpr explicit operator float() const {
        const uint32_t sign = (bits & 0x8000u) << 16, e = (bits >> 10) & 31u, m = bits & 0x3ffu;
        if (e == 31) return std::bit_cast<float>(sign | 0x7f800000u | (m << 13));
        if (e != 0) return std::bit_cast<float>(sign | ((e + 112u) << 23) | (m << 13));
        const float tiny = static_cast<float>(m) * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    static constexpr f16 from_bits(uint16_t b) {
        f16 x;
        x.bits = b;
        return x;
    }
};

/// bfloat16 as storage: the upper half of a float.
struct bf16 {
    uint16_t bits = 0;

    bf16() = default;
    constexpr explicit bf16(float x) {
        const uint32_t u = std::bit_cast<uint32_t>(x);
        if ((u & 0x7fffffffu) > 0x7f800000u) {
            bits = static_cast<uint16_t>((u >> 16) | 0x40u);
        } else {
            bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
        }
    }
    constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
    static constexpr bf16 from_bits(uint16_t b) {
        bf16 x;
        x.bits = b;
        return x;
    }
};

/// A byte of a kQ8_0 row. Templates take it as the type of such rows.
struct q8_0 {
    char byte;
};

static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2 && sizeof(q8_0) == 1);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
    static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<f16> {
    static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<bf16> {
    static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int32_t> {
    static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
    static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
    static constexpr DType value = DType::kU8;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Returns the distance from 1 to the next larger value of a floating type: 2^-23, 2^-10, 2^-7. Others: 0.
constexpr double eps_of(DType t) {
    return t == DType::kF32 ? 0x1p-23 : t == DType::kF16 ? 0x1p-10 : t == DType::kBF16 ? 0x1p-7 : 0.0;
}

}  // namespace trireme
