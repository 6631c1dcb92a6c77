#pragma once
/// How a checkpoint stores the elements of a tensor: plain numbers, or blocks with shared scales (GGUF).

#include <cstddef>
#include <cstdint>
#include <iterator>
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
    kIQ4_XS
};
inline constexpr size_t kStoredTypes = static_cast<size_t>(StoredType::kIQ4_XS) + 1;

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
    }
    return {0, 0};
}

/// "F32", "Q4_K", ... as the formats spell them.
constexpr std::string_view name_of(StoredType t) {
    constexpr std::string_view names[] = {"F32",    "F16",   "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                          "IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"};
    static_assert(std::size(names) == kStoredTypes);
    return names[index(t)];
}

constexpr bool is_quantised(StoredType t) {
    return t > StoredType::kBF16;
}

}  // namespace trireme
