#pragma once
/// Vec8: 8 elements of a key or value, as loaded and widened.

#include "kernels/cuda/kv.h"

namespace trireme::gpu {

/// 8 consecutive elements of a slot. Types are known at compile time, or (AnyType) read at run time: mixed types are
/// rare and need not be fast.
template <class T>
struct Vec8 {
    static_assert(8 * sizeof(T) == sizeof(Bits16), "a 16-bit type; others have a specialisation");
    Bits16 bits = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int /*dim*/, int first, DType) {
        bits = gpu.load16(reinterpret_cast<const T*>(slot) + first);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType) const {
        for (int i = 0; i < 8; ++i) to[i] = widen(element<T>(bits, i));
    }
};
template <>
struct Vec8<float> {
    static_assert(8 * sizeof(float) == 2 * sizeof(Bits16));
    Bits16 low = {}, high = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int /*dim*/, int first, DType) {
        low = gpu.load16(reinterpret_cast<const float*>(slot) + first);
        high = gpu.load16(reinterpret_cast<const float*>(slot) + first + 4);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType) const {
        for (int i = 0; i < 4; ++i) {
            to[i] = float_of(low.word[i]);
            to[i + 4] = float_of(high.word[i]);
        }
    }
};
/// Eight codes, and their scale. Rows are whole words, which is all that their addresses have in common.
template <>
struct Vec8<q8_0> {
    uint32_t word[3] = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu&, const char* slot, int dim, int first, DType) {
        word[0] = *reinterpret_cast<const uint32_t*>(slot + first);
        word[1] = *reinterpret_cast<const uint32_t*>(slot + first + 4);
        word[2] = scale_at(slot, dim, first)->bits;
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType) const {
        f16 stored;
        stored.bits = static_cast<uint16_t>(word[2]);
        const float scale = widen(stored);
        for (int i = 0; i < 8; ++i) {
            to[i] = static_cast<float>(static_cast<int8_t>(word[i / 4] >> (8 * (i % 4)))) * scale;
        }
    }
};
struct AnyType {};
template <>
struct Vec8<AnyType> {
    Vec8<float> held;  // 16-bit elements are in its lower half

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int dim, int first, DType type) {
        if (type == DType::kF32) return held.load(gpu, slot, dim, first, type);
        if (type == DType::kQ8_0) {
            Vec8<q8_0> codes;
            codes.load(gpu, slot, dim, first, type);
            for (int i = 0; i < 3; ++i) held.low.word[i] = codes.word[i];
            return;
        }
        held.low = gpu.load16(reinterpret_cast<const uint16_t*>(slot) + first);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType type) const {
        if (type == DType::kF16) return Vec8<f16>{held.low}.widen_to(to, type);
        if (type == DType::kBF16) return Vec8<bf16>{held.low}.widen_to(to, type);
        if (type == DType::kQ8_0) {
            return Vec8<q8_0>{{held.low.word[0], held.low.word[1], held.low.word[2]}}.widen_to(to, type);
        }
        held.widen_to(to, type);
    }
};

/// Element i of a row of T's. Plain types are compared at run time: if they are known at compile time, nvcc needs more
/// registers than the budget allows.
template <class T>
TRIREME_GPU float element_by(DType type, const char* row, int64_t dim, int64_t i) {
    if constexpr (std::is_same_v<T, AnyType>) {
        return element_of(type, row, dim, i);
    } else if constexpr (std::is_same_v<T, q8_0>) {
        return element_as<q8_0>(row, dim, i);
    } else {
        return plain_element_of(type, row, i);
    }
}

}  // namespace trireme::gpu
