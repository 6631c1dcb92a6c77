#pragma once
/// Rows of keys and values on the CPU (kernels/kv.h): their elements, and pieces of them. A piece is a row of fewer
/// elements: whole blocks for q8_0.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/kv.h"

namespace trireme {

/// Elements of T from one row of `dim` elements to the next.
template <class T>
constexpr int64_t row_stride(int64_t dim) {
    return std::is_same_v<T, q8_0> ? static_cast<int64_t>(row_bytes(DType::kQ8_0, dim)) : dim;
}

/// Element i of a row of n, widened.
inline float element(DType type, const char* row, int64_t n, int64_t i) {
    if (type == DType::kQ8_0) {
        f16 scale;
        std::memcpy(&scale, row + n + i / kQuantBlock * 2, sizeof(scale));
        return static_cast<float>(reinterpret_cast<const int8_t*>(row)[i]) * static_cast<float>(scale);
    }
    if (type == DType::kF16) return static_cast<float>(reinterpret_cast<const f16*>(row)[i]);
    if (type == DType::kBF16) return static_cast<float>(reinterpret_cast<const bf16*>(row)[i]);
    return reinterpret_cast<const float*>(row)[i];
}

/// Copies elements [first, first + n) of a row of `dim` as a row of n.
inline void row_piece(DType type, const char* row, int64_t dim, int64_t first, int64_t n, char* piece) {
    const size_t size = size_of(type);
    std::memcpy(piece, row + static_cast<size_t>(first) * size, static_cast<size_t>(n) * size);
    if (type != DType::kQ8_0) return;
    std::memcpy(piece + n, row + dim + first / kQuantBlock * 2, static_cast<size_t>(n / kQuantBlock * 2));
}

/// The inverse: copies a row of n to elements [first, first + n) of a row of `dim`.
inline void put_piece(DType type, const char* piece, int64_t first, int64_t n, char* row, int64_t dim) {
    const size_t size = size_of(type);
    std::memcpy(row + static_cast<size_t>(first) * size, piece, static_cast<size_t>(n) * size);
    if (type != DType::kQ8_0) return;
    std::memcpy(row + dim + first / kQuantBlock * 2, piece + n, static_cast<size_t>(n / kQuantBlock * 2));
}

}  // namespace trireme
