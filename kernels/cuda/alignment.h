#pragma once
/// Alignment of a matrix's rows, as a library may assume it.

#include <bit>
#include <cstdint>

#include "runtime/tensor.h"

namespace trireme::gpu {

/// The largest power of two, in bytes and at most 256, that divides the address of every row.
inline uint32_t alignment_of(const Tensor& t) {
    constexpr uint64_t kMost = 256;
    const uint64_t stride = static_cast<uint64_t>(t.stride()) * size_of(t.dtype());
    return uint32_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(t.data()) | stride | kMost);
}

}  // namespace trireme::gpu
