#pragma once
/// How a checkpoint stores the elements of a tensor: plain numbers, or blocks with shared scales. The types are GGUF's,
/// and two of our own for safetensors with int4 or FP8 weights (model/checkpoint/packed_matrix.h).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/dtype.h"
#include "runtime/index.h"

namespace trireme {

enum class StoredType : uint8_t {
    kF32,
    kF16,
    kBF16,
    kQ4_0,
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ8_0,
    kIQ4_NL,
    kMXFP4,
    kQ2_K,
    kQ3_K,
    kQ4_K,
    kQ5_K,
    kQ6_K,
    kIQ4_XS,
    kInt4,
    kFP8
};
inline constexpr size_t kStoredTypes = static_cast<size_t>(StoredType::kFP8) + 1;

/// Elements of a row are stored in blocks; a row is a whole number of them. Plain types have blocks of one.
struct BlockLayout {
    int64_t elements;
    size_t bytes;
};

inline constexpr int64_t kMostBlock = 256;  // elements of the largest block

constexpr BlockLayout layout_of(StoredType t) {
    switch (t) {
        case StoredType::kF32:
            return {1, 4};
        case StoredType::kF16:
        case StoredType::kBF16:
            return {1, 2};
        case StoredType::kQ4_0:
            return {32, 18};
        case StoredType::kQ4_1:
            return {32, 20};
        case StoredType::kQ5_0:
            return {32, 22};
        case StoredType::kQ5_1:
            return {32, 24};
        case StoredType::kQ8_0:
            return {32, 34};
        case StoredType::kIQ4_NL:
            return {32, 18};
        case StoredType::kMXFP4:
            return {32, 17};
        case StoredType::kQ2_K:
            return {256, 84};
        case StoredType::kQ3_K:
            return {256, 110};
        case StoredType::kQ4_K:
            return {256, 144};
        case StoredType::kQ5_K:
            return {256, 176};
        case StoredType::kQ6_K:
            return {256, 210};
        case StoredType::kIQ4_XS:
            return {256, 136};
        case StoredType::kInt4:
            return {32, 20};
        case StoredType::kFP8:
            return {32, 36};
    }
    return {0, 0};
}

/// "F32", "Q4_K", ... as the formats spell them.
constexpr std::string_view name_of(StoredType t) {
    constexpr std::string_view names[] = {"F32",   "F16",  "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",   "Q8_0", "IQ4_NL",
                                          "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "INT4", "FP8"};
    static_assert(std::size(names) == kStoredTypes);
    return names[index(t)];
}

/// The type with this name, if there is one.
constexpr std::optional<StoredType> stored_type_named(std::string_view name) {
    for (size_t i = 0; i < kStoredTypes; ++i) {
        if (name_of(static_cast<StoredType>(i)) == name) return static_cast<StoredType>(i);
    }
    return {};
}

constexpr bool is_quantised(StoredType t) {
    return t > StoredType::kBF16;
}

/// The element type of a plain type, and the plain type of an element type.
constexpr DType plain_dtype(StoredType t) {
    return t == StoredType::kF32 ? DType::kF32 : t == StoredType::kF16 ? DType::kF16 : DType::kBF16;
}
constexpr StoredType stored_as(DType t) {
    return t == DType::kF32 ? StoredType::kF32 : t == DType::kF16 ? StoredType::kF16 : StoredType::kBF16;
}

/// Positions of the f16 scales and minima in a block, in bytes; -1: none.
struct HalfPositions {
    int first = -1, second = -1;
};
constexpr HalfPositions halves_of(StoredType t) {
    switch (t) {
        case StoredType::kQ4_0:
        case StoredType::kQ5_0:
        case StoredType::kQ8_0:
        case StoredType::kIQ4_NL:
        case StoredType::kIQ4_XS:
            return {0};
        case StoredType::kQ4_1:
        case StoredType::kQ5_1:
        case StoredType::kQ4_K:
        case StoredType::kQ5_K:
            return {0, 2};
        case StoredType::kQ2_K:
            return {80, 82};
        case StoredType::kQ3_K:
            return {108};
        case StoredType::kQ6_K:
            return {208};
        case StoredType::kMXFP4:
        case StoredType::kInt4:
        case StoredType::kFP8:
        case StoredType::kF32:
        case StoredType::kF16:
        case StoredType::kBF16:
            break;
    }
    return {};
}

/// Values of 4-bit codes: of IQ4_NL and IQ4_XS; of MXFP4 (e2m1), doubled.
alignas(16) inline constexpr int8_t kUnevenValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                         1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) inline constexpr int8_t kE2m1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// MXFP4's scale, 2^(e - 127), halved because values are doubled.
constexpr float e8m0_half(uint32_t e) {
    return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/// The scale and the zero point, 0 to 16, of an INT4 block, from its first four bytes: an f32 number and, in its lowest
/// byte, the zero point. Scales are f16 or bf16 in files, so the lowest byte of a scale is zero.
struct Int4Scale {
    float scale;
    int zero;
};
constexpr Int4Scale int4_scale(uint32_t word) {
    return {std::bit_cast<float>(word & 0xffffff00u), static_cast<int>(word & 0xffu)};
}
/// Bits of the f16 number that is an e4m3 number (FP8) over 256. 0x7f and 0xff, the NaNs, become +-480 / 256.
constexpr uint16_t e4m3_as_half(uint32_t code) {
    return static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7fu) << 7);
}

}  // namespace trireme
