// The forecast of a round, compared with the figures of triforce.md, section 0, and with simulated rounds.

#include "decode/round_forecast.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

std::function<double(int64_t)> always(double ms) {
    return [ms](int64_t) { return ms; };
}
std::function<double(int64_t, double)> behind(double ms) {
    return [ms](int64_t, double draft_ms) { return draft_ms + ms; };
}

// Six tokens at 0.21 take TriForce's number of inner rounds. TriForce's last inner round may give a seventh token, ours
// does not. The test adds the expected value of that token to compare with 5.35.
TEST(RoundForecast, IsTriForcesOnAnA100) {
    const std::vector<CheckingLevel> checks = {{"full", 0.904, 6, {}}, {"retrieval", 0.21, 1, always(14.0)}};
    const RoundForecast f = forecast_round(checks, 0.6, behind(52.8));
    EXPECT_NEAR(f.levels[1].forwards, 5.10, 0.005);
    EXPECT_NEAR(f.round_ms, 128, 0.01 * 128);
    EXPECT_NEAR(f.tokens + 0.21 / 1.21 * std::pow(0.904, 7), 5.35, 0.02);
    EXPECT_NEAR(f.token_ms(), 24.0, 0.02 * 24.0);
}

TEST(RoundForecast, HasTriForcesNumberOfInnerRounds) {
    for (const auto& [g, a, rounds] : {std::tuple{6, 0.21, 5.10}, {6, 0.35, 4.64}, {16, 0.35, 12.04}}) {
        const std::vector<CheckingLevel> checks = {{"full", 0.9, g, {}}, {"retrieval", a, 1, always(1)}};
        const RoundForecast f = forecast_round(checks, 0, behind(0));
        EXPECT_NEAR(f.levels[1].forwards, rounds, 0.006) << g << " " << a;
        EXPECT_NEAR(f.draft_ms, f.levels[1].forwards, 1e-9);
    }
}

// The averages of a million simulated rounds.
TEST(RoundForecast, IsWhatPlayedRoundsTakeOnAverage) {
    constexpr int64_t kGamma = 9, kInner = 3;
    constexpr double kOuter = 0.9, kMiddle = 0.6, kDraftMs = 0.5;
    const auto middle_ms = [](int64_t rows) { return 2 + 0.25 * static_cast<double>(rows); };
    const auto outer_ms = [](int64_t rows, double draft) { return std::max(draft, 30 + static_cast<double>(rows)); };
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> uniform(0, 1);
    const auto stay = [&](double p, int64_t n) {
        int64_t stays = 0;
        while (stays < n && uniform(random) < p) ++stays;
        return stays;
    };
    double draft = 0, drafted = 0, forwards = 0, tokens = 0;
    constexpr int kRounds = 1'000'000;
    for (int i = 0; i < kRounds; ++i) {
        for (int64_t collected = 0; collected < kGamma; ++forwards) {
            const int64_t asked = std::min(kInner, kGamma - collected - 1);
            drafted += static_cast<double>(asked);
            draft += static_cast<double>(asked) * kDraftMs + middle_ms(asked + 1);
            collected += stay(kMiddle, asked) + 1;
        }
        tokens += static_cast<double>(stay(kOuter, kGamma) + 1);
    }
    const std::vector<CheckingLevel> checks = {{"full", kOuter, kGamma, {}}, {"retrieval", kMiddle, kInner, middle_ms}};
    const RoundForecast f = forecast_round(checks, kDraftMs, outer_ms);
    constexpr double kError = 5.0 / 1000;  // relative; 5 sigma
    EXPECT_NEAR(f.levels[1].forwards * kRounds / forwards, 1, kError);
    EXPECT_NEAR(f.drafted * kRounds / drafted, 1, kError);
    EXPECT_NEAR(f.draft_ms * kRounds / draft, 1, kError);
    EXPECT_NEAR(f.tokens * kRounds / tokens, 1, kError);
    EXPECT_DOUBLE_EQ(f.round_ms, outer_ms(kGamma + 1, f.draft_ms));
}

TEST(RoundForecast, OfALevelThatDraftsNothingIsPlainDecoding) {
    const std::vector<CheckingLevel> checks = {{"full", 0.5, GammaController::kAuto, {}}};
    const RoundForecast f = forecast_round(checks, 5, [](int64_t rows, double d) { return d + 8 * double(rows); });
    EXPECT_EQ(f.levels[0].gamma, 0);
    EXPECT_EQ(f.tokens, 1);
    EXPECT_EQ(f.round_ms, 8);
}

// Compares every outer length: none is faster than the chosen one.
TEST(RoundForecast, ChoosesTheFastestLengths) {
    const auto ms = [](int64_t rows) { return 4 + static_cast<double>(rows); };
    const auto whole = [](int64_t rows, double d) { return d + 100 + 0.5 * static_cast<double>(rows); };
    std::vector<CheckingLevel> checks = {{"full", 0.93, GammaController::kAuto, {}},
                                         {"retrieval", 0.7, GammaController::kAuto, ms}};
    const RoundForecast chosen = forecast_round(checks, 0.5, whole);
    EXPECT_GT(chosen.levels[0].gamma, 1);
    EXPECT_GT(chosen.levels[1].gamma, 0);
    checks[1].gamma = chosen.levels[1].gamma;
    for (checks[0].gamma = 1; checks[0].gamma <= GammaController::kMost; ++checks[0].gamma) {
        EXPECT_GE(forecast_round(checks, 0.5, whole).token_ms(), chosen.token_ms() * (1 - 1e-12));
    }
}

TEST(RoundForecast, OfTokensThatAllStayGivesThemAll) {
    const std::vector<CheckingLevel> checks = {{"full", 1, 7, {}}, {"window", 1, 2, always(3)}};
    const RoundForecast f = forecast_round(checks, 1, behind(10));
    EXPECT_DOUBLE_EQ(f.tokens, 8);
    EXPECT_DOUBLE_EQ(f.levels[1].forwards, 3);  // 3 + 3 + 1 tokens
    EXPECT_DOUBLE_EQ(f.drafted, 4);
    EXPECT_DOUBLE_EQ(f.round_ms, 3 * 3 + 4 * 1 + 10);
}

}  // namespace
}  // namespace trireme::test
