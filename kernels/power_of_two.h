#pragma once
/// Powers of two by a polynomial, for softmax and for the weights of tokens.

#include <bit>
#include <cstdint>

namespace trireme {

inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, held in the lowest bits
/// Coefficient i of 2^f for |f| <= 1/2, from the highest power down: the minimax polynomial with 2^0 = 1. Its relative
/// error is 2.6e-9 before coefficients are rounded to f32, 2e-8 with these. The array is local: an array at namespace
/// scope is a host variable, and nvcc compiles its read in device code to a trap (tests/device_code.py).
inline constexpr int kPowerTermCount = 7;
constexpr float power_term(int i) {
    constexpr float kTerms[kPowerTermCount] = {
        1.55947389e-4f, 1.34066737e-3f, 9.61769279e-3f, 5.55031039e-2f, 2.40226522e-1f, 6.93147242e-1f, 1.0f};
    return kTerms[i];
}

/// 2^x for -64 <= x <= 0, within 2 ulp. Multiplications and additions are separate (nothing here is compiled with fused
/// ones), so that weights are the same on every backend.
constexpr float power_of_two(float x) {
    const float rounded = x + kRounder, f = x - (rounded - kRounder);
    float p = power_term(0);
    for (int i = 1; i < kPowerTermCount; ++i) p = p * f + power_term(i);
    return p * std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) << 23) + 0x3f800000u);
}

}  // namespace trireme
