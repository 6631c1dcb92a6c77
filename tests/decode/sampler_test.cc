#include "decode/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/random.h"

namespace trireme::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Logits whose softmax at temperature 1 is exactly these weights, up to rounding.
std::vector<float> logits_of(const std::vector<double>& weights) {
    std::vector<float> logits;
    for (const double w : weights) logits.push_back(w > 0 ? static_cast<float>(std::log(w)) : -kInf);
    return logits;
}

SamplingParams off(double temperature = 1) {
    return {.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0};
}

void expect_distribution(const Distribution& d, const std::vector<int32_t>& ids, const std::vector<double>& p) {
    ASSERT_EQ(d.ids, ids);
    ASSERT_EQ(d.p.size(), p.size());
    for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(d.p[i], p[i], 1e-6) << i;  // float logits: 6e-8 each, e-folded
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
    Sampler s({.temperature = 0});
    const std::vector<float> logits = {1, 3, 3, 2, 3};

    EXPECT_EQ(s.sample(logits, 0.99), 1);
    EXPECT_EQ(s.distribution(logits).ids, std::vector<int32_t>{1});
}

TEST(Sampler, SortsByProbabilityThenId) {
    Sampler s(off());
    expect_distribution(s.distribution(logits_of({0.2, 0.4, 0.2, 0.2})), {1, 0, 2, 3}, {0.4, 0.2, 0.2, 0.2});
}

TEST(Sampler, TemperatureComesFirst) {
    SamplingParams p = off(0.5);  // squares the weights: 1, 4, 9, 16 of 30
    Sampler plain(p);
    expect_distribution(plain.distribution(logits_of({0.1, 0.2, 0.3, 0.4})), {3, 2, 1, 0},
                        {16 / 30.0, 9 / 30.0, 4 / 30.0, 1 / 30.0});
    p.top_p = 0.8;  // 16/30 < 0.8 <= 25/30: two are kept; unsquared it would be three
    Sampler filtered(p);
    expect_distribution(filtered.distribution(logits_of({0.1, 0.2, 0.3, 0.4})), {3, 2}, {16 / 25.0, 9 / 25.0});
}

TEST(Sampler, TopKThenTopPThenMinP) {
    SamplingParams p = off();
    p.top_k = 3;     // 0.4 0.3 0.2 -> of 0.9
    p.top_p = 0.75;  // 0.444 + 0.333 = 0.778: two kept. Without top-k 0.4 + 0.3 = 0.7 < 0.75 would keep three
    Sampler s(p);
    expect_distribution(s.distribution(logits_of({0.1, 0.2, 0.3, 0.4})), {3, 2}, {4 / 7.0, 3 / 7.0});

    p = off();
    p.min_p = 0.6;  // keeps p >= 0.24
    Sampler m(p);
    expect_distribution(m.distribution(logits_of({0.1, 0.2, 0.3, 0.4})), {3, 2}, {4 / 7.0, 3 / 7.0});
}

TEST(Sampler, FiltersKeepAtLeastOneToken) {
    Sampler s({.temperature = 1, .top_k = 1, .top_p = 1e-9, .min_p = 1});
    expect_distribution(s.distribution(logits_of({0.2, 0.8})), {1}, {1.0});
}

TEST(Sampler, NeverGivesATokenOfMinusInfinity) {
    Sampler s(off());
    const std::vector<float> logits = {-kInf, 0, -kInf};
    for (const double u : {0.0, 0.5, 0.999999999999}) EXPECT_EQ(s.sample(logits, u), 1);
}

TEST(Sampler, RefusesNanAndAllMinusInfinity) {
    for (const double t : {0.0, 1.0}) {
        Sampler s(off(t));
        EXPECT_THROW(s.sample(std::vector<float>{0, std::nanf(""), 1}, 0.5), Error);
        EXPECT_THROW(s.sample(std::vector<float>{-kInf, -kInf}, 0.5), Error);
        EXPECT_THROW(s.sample(std::vector<float>{0, kInf}, 0.5), Error);
    }
}

TEST(Sampler, SurvivesTinyTemperatures) {
    Sampler s(off(1e-300));
    EXPECT_EQ(s.sample(std::vector<float>{1, 2, 1.5f}, 0.9999), 1);
}

TEST(SamplingParams, RefuseValuesOutOfRange) {
    const auto refused = [](SamplingParams p) {
        try {
            p.validate();
            return false;
        } catch (const Error& e) {
            return e.code() == Exit::kConfig;
        }
    };
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
    for (const double t : {-1.0, -1e-9, nan, inf}) EXPECT_TRUE(refused({.temperature = t})) << t;
    EXPECT_TRUE(refused({.top_k = -1}));
    for (const double p : {0.0, -0.1, 1.0000001, nan}) EXPECT_TRUE(refused({.top_p = p})) << p;
    for (const double p : {-0.1, 1.1, nan}) EXPECT_TRUE(refused({.min_p = p})) << p;
    EXPECT_FALSE(refused({.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 1}));
}

TEST(Sampler, TheSmallestTemperatureIsGreedy) {
    const std::vector<float> logits = {1, 3, 2.999f, -4};
    for (const double t : {1e-300, 1e-310, 5e-324}) {
        Sampler s({.temperature = t, .top_k = 0, .top_p = 1, .min_p = 0});
        for (const double u : {0.0, 0.5, 0.999}) EXPECT_EQ(s.sample(logits, u), 1) << t;
    }
}

// Chi-square of 10^6 draws over 16 cells against the law itself: the 1 - 1e-6 quantile for 15 degrees is 57.
TEST(Sampler, DrawsTheDistribution) {
    std::mt19937 random(5);
    std::vector<double> weights(16);
    double sum = 0;
    for (double& w : weights) sum += w = 1 + static_cast<double>(random() % 100);
    Sampler s(off());
    const Distribution& d = s.distribution(logits_of(weights));
    const int n = 1'000'000;
    std::vector<int64_t> seen(16);

    for (int i = 0; i < n; ++i) ++seen[static_cast<size_t>(d.draw(uniform(9, {.round = static_cast<uint32_t>(i)})))];

    double chi2 = 0;
    for (size_t i = 0; i < 16; ++i) {
        const double want = n * weights[i] / sum;
        chi2 += (static_cast<double>(seen[i]) - want) * (static_cast<double>(seen[i]) - want) / want;
    }
    EXPECT_LT(chi2, 57);
}

}  // namespace
}  // namespace trireme::test
