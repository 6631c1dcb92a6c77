#include "runtime/random.h"

#include <set>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using Block = std::array<uint32_t, 4>;

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, EveryFieldOfTheKeyAndTheSeedTakePart) {
    const DrawKey base{1, 2, 3, 4, Purpose::kAccept};
    std::set<double> seen{uniform(7, base)};

    DrawKey k = base;
    k.sample = 2;
    seen.insert(uniform(7, k));
    k = base, k.round = 3;
    seen.insert(uniform(7, k));
    k = base, k.level = 4;
    seen.insert(uniform(7, k));
    k = base, k.node = 5;
    seen.insert(uniform(7, k));
    k = base, k.purpose = Purpose::kShuffle;
    seen.insert(uniform(7, k));
    seen.insert(uniform(8, base));
    seen.insert(uniform(7 + (uint64_t{1} << 32), base));

    EXPECT_EQ(seen.size(), 8u);
}

// Mean and variance of 10^6 draws: standard errors are 2.9e-4 and 7.5e-5; five of them is a miss once in 10^6 seeds.
TEST(Uniform, IsUniform) {
    const int n = 1'000'000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
        const double u = uniform(42, {.round = static_cast<uint32_t>(i)});
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        sum += u;
        squares += u * u;
    }
    const double mean = sum / n;
    EXPECT_NEAR(mean, 0.5, 5 * 2.9e-4);
    EXPECT_NEAR(squares / n - mean * mean, 1.0 / 12, 5 * 7.5e-5);
}

}  // namespace
}  // namespace trireme::test
