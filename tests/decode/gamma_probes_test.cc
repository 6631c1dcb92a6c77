// GammaController: numbers of siblings by exhaustion; probes while drafting is off, and the waits between them.

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "decode/branched_chain.h"
#include "decode/gamma_controller.h"
#include "tests/decode/linear_costs.h"

namespace trireme::test {
namespace {

using Outcome = GammaController::Outcome;

/// Counts with older tokens faded, as the controller's contract has them: 64 tokens effectively.
struct Counts {
    double yes, no;
    void add(int64_t yeses, int64_t noes) {
        for (int64_t i = 0; i < yeses + noes; ++i) {
            yes *= 63.0 / 64;
            no *= 63.0 / 64;
            ++(i < yeses ? yes : no);
        }
    }
    double share() const { return yes / (yes + no); }
};

// Siblings must cut the time per token to 0.99.
TEST(GammaController, NoOtherNumberOfSiblingsIsBetter) {
    const std::vector<Outcome> told = {{.tokens = 4, .accepted = 1, .rescued = 1, .missed = 1, .asked = true},
                                       {.tokens = 2, .residual = 1, .missed = 3, .asked = true},
                                       {.tokens = 9, .accepted = 6, .rescued = 2, .asked = true}};
    for (const int64_t gamma : {1, 2, 5}) {
        for (size_t history = 0; history <= told.size(); ++history) {
            GammaController controller(gamma);
            Counts chain = {3, 1}, siblings = {2, 2};
            for (size_t i = 0; i < history; ++i) {
                controller.observe(told[i]);
                chain.add(told[i].accepted, told[i].residual + told[i].rescued);
                siblings.add(told[i].rescued, told[i].missed);
            }
            for (int step = 0; step < 200; ++step) {
                const double row = 0.001 * std::pow(1.05, step), token_ms = 0.3;
                const LevelCosts costs = linear_costs(10, row);
                controller.set_costs(costs, nullptr, token_ms);
                double tokens = 1, stay = 1, least = 0;
                for (int64_t i = 0; i < gamma; ++i) tokens += stay *= chain.share();
                int64_t best = 0;
                for (int64_t n = 0; n <= std::min(BranchedChain::kMostSiblings, (kMaxRows - 1) / gamma - 1); ++n) {
                    const double more = (1 - stay) * (1 - std::pow(1 - siblings.share(), static_cast<double>(n)));
                    const double ms =
                        (static_cast<double>(gamma) * token_ms + costs.ms(1 + gamma * (1 + n))) / (tokens + more);
                    if (n > 0 && ms >= least) continue;
                    least = n == 0 ? 0.99 * ms : ms;
                    best = n;
                }
                ASSERT_EQ(controller.siblings(gamma, kMaxRows - 1), best) << gamma << " " << history << " " << row;
            }
        }
    }
}

/// The number of tokens until the next probe of a controller that is off; at most 10,000.
int64_t tokens_until_probe(GammaController& controller) {
    int64_t n = 0;
    for (; n < 10'000 && controller.next(GammaController::kMost, true) == 0; ++n) controller.observe({.tokens = 1});
    return n;
}

// A probe's extra time is 1 % of the time until then, and each failed probe doubles it, five times at most.
TEST(GammaController, WaitsInProportionToWhatAProbeCosts) {
    GammaController controller;
    controller.set_costs(linear_costs(10, 0.5), nullptr, 7);
    controller.observe({.tokens = 1});  // the beginning's estimate does not pay
    const double lost = 3 * 7 + 3 * 0.5;
    const auto wait = static_cast<int64_t>(std::ceil(lost / (0.01 * 10)));
    EXPECT_EQ(tokens_until_probe(controller), wait);
    EXPECT_EQ(controller.next(GammaController::kMost, true), 3);
    EXPECT_EQ(controller.next(GammaController::kMost, false), 0) << "only the first call after observe() probes";
    for (int doublings = 1; doublings <= 7; ++doublings) {
        controller.observe({.tokens = 1, .residual = 1, .asked = true});
        EXPECT_EQ(tokens_until_probe(controller), std::min<int64_t>(10'000, wait << std::min(doublings, 5)));
        if (wait << std::min(doublings + 1, 5) >= 10'000) break;
    }
}

TEST(GammaController, AProbeWithoutTokensDoublesNothing) {
    GammaController controller;
    controller.set_costs(linear_costs(10, 0.5), nullptr, 7);
    controller.observe({.tokens = 1});
    const int64_t first = tokens_until_probe(controller);
    for (int i = 0; i < 2; ++i) {
        controller.observe({.tokens = 1, .asked = true});
        EXPECT_EQ(tokens_until_probe(controller), 2 * first);
    }
}

TEST(GammaController, ProbesAgainAtOnceAfterASuccess) {
    GammaController controller;
    controller.set_costs(linear_costs(10, 0), nullptr, 9);
    controller.observe({.tokens = 4, .residual = 4});
    tokens_until_probe(controller);
    int probes = 0;
    for (; controller.next(GammaController::kMost, false) == 0 && probes < 20; ++probes) {
        ASSERT_GT(controller.next(GammaController::kMost, true), 0) << probes;
        controller.observe({.tokens = 2, .accepted = 1, .asked = true});
    }
    EXPECT_GT(probes, 1);
    EXPECT_LT(probes, 20) << "accepted tokens turn drafting on";
}

// Drafting that has paid for 64 tokens makes up for failed probes; one token less does not.
TEST(GammaController, ForgetsFailuresAfterSixtyFourTokens) {
    for (const int64_t paid : {63, 64}) {
        GammaController controller;
        controller.set_costs(linear_costs(10, 0.5), nullptr, 7);
        controller.observe({.tokens = 1});  // the beginning's estimate does not pay: the first failure
        for (int i = 0; i < 2; ++i) {
            tokens_until_probe(controller);
            controller.observe({.tokens = 1, .residual = 1, .asked = true});
        }
        controller.set_costs(linear_costs(10, 0), nullptr, 0);  // now everything pays
        tokens_until_probe(controller);
        controller.observe({.tokens = 4, .accepted = 3, .asked = true});
        ASSERT_GT(controller.next(GammaController::kMost, true), 0);
        controller.set_costs(linear_costs(10, 0.5), nullptr, 7);
        controller.observe({.tokens = paid, .residual = paid});  // and nothing, after that many
        const auto wait = static_cast<int64_t>(std::ceil((3 * 7 + 3 * 0.5) / (0.01 * 10)));
        EXPECT_EQ(tokens_until_probe(controller), paid == 64 ? wait : wait << 3);
    }
}

TEST(GammaController, OfLengthsAsGoodTheShortestCounts) {
    // 3 of 4 tokens are accepted at first: 1.75 tokens for one, 2.3125 for two.
    GammaController chain;
    chain.set_costs({"full", {{1, 1.5}, {2, 1.75}, {3, 2.3125}, {4, 1000}}}, nullptr, 0);
    EXPECT_EQ(chain.next(GammaController::kMost, true), 1);
    // Half of the siblings are: 1.875 tokens with one, 1.9375 with two.
    GammaController siblings(1);
    siblings.set_costs({"full", {{1, 1}, {2, 3.75}, {3, 3.75}, {4, 3.875}, {5, 1000}}}, nullptr, 0);
    EXPECT_EQ(siblings.siblings(1, kMaxRows - 1), 1);
}

// Where nothing can pay, it looks at the costs again after 32 tokens. Before, cheaper drafting changes nothing.
TEST(GammaController, LooksAtNewCostsWhenItHasWaited) {
    for (const double first : {10.0, 1.0}) {
        GammaController controller;
        controller.set_costs(linear_costs(first, 2 * first), nullptr, 0);
        controller.observe({.tokens = 1});
        controller.set_costs(linear_costs(first, 0), nullptr, 0.1 * first);
        EXPECT_EQ(tokens_until_probe(controller), 32);
    }
}

// One token can pay, two cannot: the probe costs 3 ms of drafting and 2 ms more of the verify.
TEST(GammaController, WaitsForAProbeOfOneToken) {
    GammaController controller;
    controller.set_costs({"full", {{1, 10}, {2, 12}, {3, 30}, {4, 60}, {kMaxRows, 60}}}, nullptr, 3);
    controller.observe({.tokens = 31, .residual = 30});
    EXPECT_EQ(tokens_until_probe(controller), 50);
    EXPECT_EQ(controller.next(GammaController::kMost, true), 1);
}

// A probe is short if a short one can pay; else as long as is best.
TEST(GammaController, ProbesWithALongProposalWhereNoShortOneCanPay) {
    const auto probe = [](LevelCosts costs) {
        GammaController controller;
        controller.set_costs(costs, nullptr, 0);
        controller.observe({.tokens = 31, .residual = 30});
        tokens_until_probe(controller);
        return controller.next(GammaController::kMost, true);
    };
    EXPECT_EQ(probe({"full", {{1, 10}, {2, 50}, {kMaxRows, 50}}}), GammaController::kMost);
    EXPECT_EQ(probe({"full", {{1, 10}, {2, 12}, {3, 30}, {4, 60}, {kMaxRows, 60}}}), 1);
}

}  // namespace
}  // namespace trireme::test
