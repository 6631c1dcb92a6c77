#pragma once
/// Vec8: 8 elements of a key or value, as loaded and widened.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// 8 consecutive elements of a slot. Types are known at compile time, or (AnyType) read at run time: mixed types are
/// rare and need not be fast.
template <class T>
struct Vec8 {
    static_assert(8 * sizeof(T) == sizeof(Bits16), "a 16-bit type; others have a specialisation");
    Bits16 bits = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType) {
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
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType) {
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
struct AnyType {};
template <>
struct Vec8<AnyType> {
    Vec8<float> held;  // 16-bit elements are in its lower half

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType type) {
        if (type == DType::kF32) return held.load(gpu, slot, first, type);
        held.low = gpu.load16(reinterpret_cast<const uint16_t*>(slot) + first);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType type) const {
        if (type == DType::kF16) return Vec8<f16>{held.low}.widen_to(to, type);
        if (type == DType::kBF16) return Vec8<bf16>{held.low}.widen_to(to, type);
        held.widen_to(to, type);
    }
};

}  // namespace trireme::gpu
