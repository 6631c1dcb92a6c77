#include "runtime/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

// The value of a 16-bit pattern from the definition of the format, in double.
double value(uint16_t bits, int exponent_bits, int mantissa_bits) {
    const int e = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1), m = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (e == (1 << exponent_bits) - 1) return m ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    const double frac = std::ldexp(m, -mantissa_bits);
    return sign * (e ? std::ldexp(1 + frac, e - bias) : std::ldexp(frac, 1 - bias));
}

template <class T>
void every_pattern_has_its_value_and_comes_back(int exponent_bits, int mantissa_bits) {
    for (uint32_t u = 0; u < 65536; ++u) {
        const auto bits = static_cast<uint16_t>(u);
        const double want = value(bits, exponent_bits, mantissa_bits);
        const float got = static_cast<float>(T::from_bits(bits));
        if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << u;
            ASSERT_TRUE(std::isnan(static_cast<float>(T(got)))) << u;
        } else {
            ASSERT_EQ(static_cast<double>(got), want) << u;
            ASSERT_EQ(T(got).bits, bits) << u;
        }
    }
}

// Between two neighbours: a value below the middle rounds down, above it rounds up, and the middle rounds to even.
template <class T>
void rounds_to_nearest_even(uint16_t largest_finite) {
    for (uint32_t u = 0; u < largest_finite; ++u) {
        const double a = static_cast<float>(T::from_bits(static_cast<uint16_t>(u)));
        const double b = static_cast<float>(T::from_bits(static_cast<uint16_t>(u + 1)));
        const float mid = static_cast<float>((a + b) / 2);
        if (static_cast<double>(mid) != (a + b) / 2) continue;  // finer than float's own precision
        ASSERT_EQ(T(mid).bits, u % 2 == 0 ? u : u + 1) << u;
        ASSERT_EQ(T(std::nextafter(mid, -std::numeric_limits<float>::infinity())).bits, u) << u;
        ASSERT_EQ(T(std::nextafter(mid, std::numeric_limits<float>::infinity())).bits, u + 1) << u;
        ASSERT_EQ(T(-std::nextafter(mid, std::numeric_limits<float>::infinity())).bits, (u + 1) | 0x8000u) << u;
    }
}

TEST(F16, EveryPatternHasItsValueAndComesBack) {
    every_pattern_has_its_value_and_comes_back<f16>(5, 10);
}
TEST(BF16, EveryPatternHasItsValueAndComesBack) {
    every_pattern_has_its_value_and_comes_back<bf16>(8, 7);
}
TEST(F16, RoundsToNearestEven) {
    rounds_to_nearest_even<f16>(0x7bff);
}
TEST(BF16, RoundsToNearestEven) {
    rounds_to_nearest_even<bf16>(0x7f7f);
}

TEST(F16, OverflowsToInfinityFromTheMiddleOn) {
    EXPECT_EQ(f16(65519.99f).bits, 0x7bff);
    EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
    EXPECT_EQ(f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
    EXPECT_EQ(f16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

}  // namespace
}  // namespace trireme::test
