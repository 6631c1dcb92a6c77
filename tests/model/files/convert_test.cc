#include "model/files/convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

bool finite_half(uint32_t h) {
    return (h & 0x7c00u) != 0x7c00u;
}

TEST(Convert, EveryHalfBecomesItsFloat) {
    std::vector<uint16_t> halves;
    for (uint32_t h = 0; h <= 0xffff; ++h) {
        if (finite_half(h)) halves.push_back(static_cast<uint16_t>(h));
    }
    const auto n = static_cast<int64_t>(halves.size());
    std::vector<float> wide(halves.size());
    std::vector<uint16_t> back(halves.size()), brain(halves.size());
    convert(DType::kF16, halves.data(), DType::kF32, wide.data(), n);
    convert(DType::kF32, wide.data(), DType::kF16, back.data(), n);
    convert(DType::kF16, halves.data(), DType::kBF16, brain.data(), n);

    for (size_t i = 0; i < halves.size(); ++i) {
        const float want = static_cast<float>(f16::from_bits(halves[i]));
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(want)) << halves[i];
        ASSERT_EQ(back[i], halves[i]);
        ASSERT_EQ(brain[i], bf16(want).bits);
    }
}

TEST(Convert, RoundsToTheNearestHalf) {
    // Every float whose upper 19 bits are any pattern and whose lower ones are around a tie.
    for (const uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
        std::vector<float> x;
        for (uint32_t high = 0; high < 1u << 19; ++high) {
            const float f = std::bit_cast<float>(high << 13 | low);
            if (std::isfinite(f)) x.push_back(f);
        }
        std::vector<uint16_t> half(x.size()), brain(x.size());
        convert(DType::kF32, x.data(), DType::kF16, half.data(), static_cast<int64_t>(x.size()));
        convert(DType::kF32, x.data(), DType::kBF16, brain.data(), static_cast<int64_t>(x.size()));
        for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(half[i], f16(x[i]).bits) << std::hexfloat << x[i];
            ASSERT_EQ(brain[i], bf16(x[i]).bits) << std::hexfloat << x[i];
        }
    }
}

TEST(Convert, EveryBrainFloatConverts) {
    std::vector<uint16_t> brain;
    for (uint32_t b = 0; b <= 0xffff; ++b) {
        if ((b & 0x7f80u) != 0x7f80u) brain.push_back(static_cast<uint16_t>(b));
    }
    const auto n = static_cast<int64_t>(brain.size());
    std::vector<float> wide(brain.size());
    std::vector<uint16_t> half(brain.size());
    convert(DType::kBF16, brain.data(), DType::kF32, wide.data(), n);
    convert(DType::kBF16, brain.data(), DType::kF16, half.data(), n);
    for (size_t i = 0; i < brain.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), uint32_t{brain[i]} << 16);
        ASSERT_EQ(half[i], f16(wide[i]).bits);
    }
}

TEST(Convert, FindsTheFirstNonfinite) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        for (const size_t at : {size_t{0}, size_t{1023}, size_t{1024}, size_t{2500}}) {
            std::vector<float> x(2501, std::numeric_limits<float>::max());
            std::vector<f16> h(2501, f16(65504.0f));
            std::vector<bf16> b(2501, bf16(-3e38f));
            EXPECT_EQ(first_nonfinite(DType::kF32, x.data(), 2501), -1);
            EXPECT_EQ(first_nonfinite(DType::kF16, h.data(), 2501), -1);
            EXPECT_EQ(first_nonfinite(DType::kBF16, b.data(), 2501), -1);
            x[at] = x[2500] = bad;
            h[at] = h[2500] = f16(bad);
            b[at] = b[2500] = bf16(bad);
            EXPECT_EQ(first_nonfinite(DType::kF32, x.data(), 2501), static_cast<int64_t>(at));
            EXPECT_EQ(first_nonfinite(DType::kF16, h.data(), 2501), static_cast<int64_t>(at));
            EXPECT_EQ(first_nonfinite(DType::kBF16, b.data(), 2501), static_cast<int64_t>(at));
        }
    }
    EXPECT_EQ(first_nonfinite(DType::kF32, nullptr, 0), -1);
}

}  // namespace
}  // namespace trireme::test
