#include "model/checkpoint/rope.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

/// Relative to the value, because the frequencies span six decades: 4 roundings of a float chain, and the power
/// function of the other side, which is good to 1 ulp.
constexpr double kUlps = 5 * 0x1p-23;

void expect_table(const RopeConfig& rope, int64_t head_dim, int64_t length, const std::vector<double>& want) {
    const RopeTable table = rope_table(rope, head_dim, length);
    ASSERT_EQ(table.inv_freq.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(std::fabs(static_cast<double>(table.inv_freq[i]) - want[i]) <= kUlps * want[i])
            << i << ": got " << table.inv_freq[i] << ", want " << want[i];
    }
}

std::vector<double> plain(double theta, int64_t head_dim) {
    std::vector<double> f;
    for (int64_t i = 0; i < head_dim / 2; ++i) {
        f.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
    }
    return f;
}

TEST(RopeTable, PlainIsPowersOfTheta) {
    for (const int64_t d : {8, 24, 40, 64, 80, 96, 128}) {
        for (const double theta : {10000.0, 500000.0, 12345.6}) expect_table({.theta = theta}, d, 64, plain(theta, d));
    }
    EXPECT_EQ(rope_table({}, 64, 64).attention_scale, 1.0f);
    EXPECT_EQ(rope_table({}, 64, 64).inv_freq[0], 1.0f);
}

TEST(RopeTable, LinearDividesByTheFactor) {
    std::vector<double> want = plain(10000, 64);
    for (double& f : want) f /= 4;
    expect_table({.scaling = RopeScaling::kLinear, .factor = 4}, 64, 64, want);
}

TEST(RopeTable, DynamicStretchesTheBaseBeyondTheTrainedLength) {
    const RopeConfig rope{.scaling = RopeScaling::kDynamic, .factor = 3, .original_context = 2048};
    expect_table(rope, 64, 1, plain(10000, 64));
    expect_table(rope, 64, 2048, plain(10000, 64));
    for (const int64_t length : {2049, 3000, 8191}) {
        const double reach = 3.0 * static_cast<double>(length) / 2048 - 2;
        expect_table(rope, 64, length, plain(10000 * std::pow(reach, 64.0 / 62.0), 64));
    }
    EXPECT_EQ(rope_table(rope, 64, 8191).attention_scale, 1.0f);
}

TEST(RopeTable, YarnGivesThePublishedNumbers) {
    // Yarn-Llama-2-7b-128k: 4096 tokens stretched 32 times. Seven digits are published.
    const RopeConfig rope{.scaling = RopeScaling::kYarn, .factor = 32, .original_context = 4096};
    const RopeTable table = rope_table(rope, 128, 131072);

    const std::pair<size_t, double> kPublished[] = {{0, 1.0},          {10, 0.2371374},   {20, 0.05623413},
                                                    {21, 0.04688233},  {30, 8.366565e-3}, {40, 8.057727e-4},
                                                    {45, 1.054998e-4}, {46, 4.167254e-5}, {63, 3.608694e-6}};
    for (const auto& [i, want] : kPublished) {
        EXPECT_TRUE(std::fabs(static_cast<double>(table.inv_freq[i]) - want) <= 1e-6 * want)
            << i << ": " << table.inv_freq[i];
    }
    EXPECT_TRUE(std::fabs(static_cast<double>(table.attention_scale) - 1.3465735903) <= 0x1p-23 * 1.35);
}

TEST(RopeTable, YarnMeetsItsFormula) {
    for (const bool truncate : {true, false}) {
        const RopeConfig rope{.theta = 50000,
                              .scaling = RopeScaling::kYarn,
                              .factor = 7.3,
                              .original_context = 256,
                              .beta_fast = 16,
                              .beta_slow = 2,
                              .truncate = truncate,
                              .attention_factor = 1.25};
        const auto pair_of = [](double rotations) {
            return 96 * std::log(256 / (rotations * 2 * std::numbers::pi)) / (2 * std::log(50000.0));
        };
        double low = pair_of(16), high = pair_of(2);
        if (truncate) {
            low = std::floor(low);
            high = std::ceil(high);
        }
        std::vector<double> want = plain(50000, 96);
        for (size_t i = 0; i < want.size(); ++i) {
            const double ramp =
                std::clamp((static_cast<double>(i) - std::max(low, 0.0)) / (high - std::max(low, 0.0)), 0.0, 1.0);
            want[i] = want[i] / 7.3 * ramp + want[i] * (1 - ramp);
        }
        expect_table(rope, 96, 64, want);
        EXPECT_EQ(rope_table(rope, 96, 64).attention_scale, 1.25f);
    }
}

TEST(RopeTable, Llama3KeepsShortWavesAndStretchesLongOnes) {
    const RopeConfig rope{.theta = 500000,
                          .scaling = RopeScaling::kLlama3,
                          .factor = 8,
                          .original_context = 8192,
                          .low_freq_factor = 1,
                          .high_freq_factor = 4};
    std::vector<double> want = plain(500000, 128);
    int kept = 0, blended = 0;
    for (double& f : want) {
        const double wave = 2 * std::numbers::pi / f;
        if (wave > 8192) {
            f /= 8;
        } else if (wave >= 2048) {
            const double smooth = (8192 / wave - 1) / 3;
            f = (1 - smooth) * f / 8 + smooth * f;
            ++blended;
        } else {
            ++kept;
        }
    }
    EXPECT_GT(kept, 0);
    EXPECT_GT(blended, 0);
    // Blended frequencies also have the wavelength's rounding in (wave - limit): some ulps more.
    const RopeTable table = rope_table(rope, 128, 64);
    for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(std::fabs(static_cast<double>(table.inv_freq[i]) - want[i]) <= 4 * kUlps * want[i]) << i;
    }
}

TEST(RopeTable, FactorsOfAFileDivide) {
    RopeConfig rope;
    rope.factors = {1, 2, 4, 8};
    std::vector<double> want = plain(10000, 8);
    for (size_t i = 0; i < 4; ++i) want[i] /= static_cast<double>(rope.factors[i]);
    expect_table(rope, 8, 64, want);
}

}  // namespace
}  // namespace trireme::test
