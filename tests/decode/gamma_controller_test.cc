// Draft lengths: the best one for the costs and the accepted tokens; off if no length pays; the cost of trying again.

#include "decode/gamma_controller.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

LevelCosts flat(double ms) {
    return {.level = "flat", .points = {{1, ms}}};
}
LevelCosts line(double ms, double ms_per_row) {
    return {.level = "line", .points = {{1, ms + ms_per_row}, {2, ms + 2 * ms_per_row}}};
}

/// A simulated sequence: each proposed token is accepted with one probability, and time is counted by the same costs.
class Text {
  public:
    Text(LevelCosts verifier, double proposed_ms) : verifier_(std::move(verifier)), proposed_ms_(proposed_ms) {
        lengths.set_costs(verifier_, nullptr, proposed_ms);
        lengths.begin();
    }
    void grow(int64_t tokens, double alpha) {
        for (const int64_t end = tokens_ + tokens; tokens_ < end;) round(alpha);
    }
    int64_t tokens() const { return tokens_; }
    /// Time relative to decoding without proposals.
    double slowdown() const { return ms_ / (static_cast<double>(tokens_) * verifier_.ms(1)); }

    GammaController lengths;
    int64_t rounds = 0, asking = 0;

  private:
    void round(double alpha) {
        const int64_t n = lengths.next(GammaController::kMost, true);
        int64_t stay = 0;
        while (stay < n && random() < alpha) ++stay;
        lengths.observe({.tokens = stay + 1, .accepted = stay, .residual = stay < n ? 1 : 0, .asked = n > 0});
        tokens_ += stay + 1;
        ms_ += static_cast<double>(n) * proposed_ms_ + verifier_.ms(n + 1);
        ++rounds;
        if (n > 0) ++asking;
    }
    double random() {
        seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<double>(seed_ >> 11) * 0x1p-53;
    }
    LevelCosts verifier_;
    double proposed_ms_, ms_ = 0;
    uint64_t seed_ = 1;
    int64_t tokens_ = 0;
};

/// Milliseconds per token at draft length g, by definition.
double token_ms(const LevelCosts& verifier, double proposed_ms, double alpha, int64_t g) {
    double tokens = 1;
    for (int64_t i = 1; i <= g; ++i) tokens += std::pow(alpha, i);
    return (static_cast<double>(g) * proposed_ms + verifier.ms(g + 1)) / tokens;
}

/// The best draft length; 0 unless it saves a twentieth of the time without proposals.
int64_t best_length(const LevelCosts& verifier, double proposed_ms, double alpha) {
    int64_t best = 1;
    for (int64_t g = 2; g <= GammaController::kMost; ++g) {
        if (token_ms(verifier, proposed_ms, alpha, g) < token_ms(verifier, proposed_ms, alpha, best)) best = g;
    }
    return token_ms(verifier, proposed_ms, alpha, best) < 0.95 * verifier.ms(1) ? best : 0;
}

TEST(SpecCosts, GoStraightBetweenPointsAndNeverFall) {
    const LevelCosts costs{.level = "x", .points = {{1, 10}, {2, 9}, {4, 20}, {8, 40}}};
    EXPECT_DOUBLE_EQ(costs.ms(1), 10);
    EXPECT_DOUBLE_EQ(costs.ms(2), 10);
    EXPECT_DOUBLE_EQ(costs.ms(3), 14.5);
    EXPECT_DOUBLE_EQ(costs.ms(4), 20);
    EXPECT_DOUBLE_EQ(costs.ms(6), 30);
    EXPECT_DOUBLE_EQ(costs.ms(16), 80);
    EXPECT_DOUBLE_EQ(flat(7).ms(64), 7);
}

TEST(GammaController, IsTheBestOne) {
    const std::vector<LevelCosts> verifiers = {
        flat(50), line(40, 2), line(5, 5), {.level = "tiles", .points = {{1, 10}, {16, 10}, {17, 19}, {32, 20}}}};
    for (const LevelCosts& verifier : verifiers) {
        for (const double proposed : {0.0, 0.5, 4.0, 60.0}) {
            for (const double alpha : {0.1, 0.5, 0.8, 0.95}) {
                GammaController lengths;
                lengths.set_costs(verifier, nullptr, proposed);
                // Enough outcomes to outweigh the initial counts. They are reported; next() is not called.
                for (int i = 0; i < 40; ++i) {
                    const auto stay = std::lround(100 * alpha);
                    lengths.observe({.tokens = 100, .accepted = 0, .residual = 100 - stay, .asked = true});
                    lengths.observe({.tokens = 100, .accepted = stay, .residual = 0, .asked = true});
                }
                const double learnt = lengths.alpha();
                const int64_t best = best_length(verifier, proposed, learnt);
                EXPECT_NEAR(lengths.token_ms(), token_ms(verifier, proposed, learnt, best), 1e-9);
                EXPECT_EQ(lengths.next(GammaController::kMost, true) * (best > 0), best) << proposed << " " << alpha;
            }
        }
    }
}

TEST(GammaController, LearnsWhatStays) {
    for (const double alpha : {0.3, 0.6, 0.9}) {
        Text text(flat(100), 1);
        text.grow(2000, alpha);
        EXPECT_NEAR(text.lengths.alpha(), alpha, 0.12);
        EXPECT_EQ(text.asking, text.rounds);
        // The time at the best length, if it were known from the start.
        const double best = token_ms(flat(100), 1, alpha, best_length(flat(100), 1, alpha)) / 100;
        EXPECT_LT(text.slowdown(), 1.1 * best) << alpha;
    }
}

TEST(GammaController, FollowsTheText) {
    Text text(flat(100), 5);
    text.grow(500, 0.95);
    const int64_t then = text.lengths.next(GammaController::kMost, true);
    text.grow(300, 0.3);
    const int64_t now = text.lengths.next(GammaController::kMost, true);
    EXPECT_GT(then, 9);
    EXPECT_LT(now, 4);
}

// Whatever drafting costs, at most 5 % slower than no speculation over the first 300 tokens, and 1.5 % over 5,300.
TEST(GammaController, LosesLittleWhereNothingPays) {
    for (const double alpha : {0.0, 0.02, 0.1}) {
        for (const double proposed : {10.0, 30.0, 60.0, 150.0}) {
            for (const LevelCosts& verifier : {flat(100), line(50, 50), line(90, 10)}) {
                Text text(verifier, proposed);
                text.grow(300, alpha);
                EXPECT_LT(text.slowdown(), 1.05) << alpha << " " << proposed << " " << verifier.ms(2);
                text.grow(5000, alpha);
                EXPECT_LT(text.slowdown(), 1.015) << alpha << " " << proposed << " " << verifier.ms(2);
            }
        }
    }
}

TEST(GammaController, AsksMoreAndMoreSeldom) {
    Text text(flat(100), 40);
    text.grow(1000, 0);
    const int64_t at_first = text.asking;
    text.grow(4000, 0);
    EXPECT_LE(text.asking, at_first + 4);
    EXPECT_GT(text.asking, at_first);
}

TEST(GammaController, DoesNotAskWhereNothingEverPays) {
    Text text(line(0, 100), 10);  // a row costs as much as a forward
    text.grow(2000, 1);
    EXPECT_EQ(text.asking, 0);
    EXPECT_DOUBLE_EQ(text.slowdown(), 1);
}

TEST(GammaController, IsOnAgainWhenTokensStay) {
    Text text(flat(100), 20);
    text.grow(600, 0);
    ASSERT_EQ(text.lengths.next(GammaController::kMost, true), 0);
    text.grow(2000, 0.97);
    EXPECT_GT(text.lengths.next(GammaController::kMost, true), 5);
}

// An attempt was due and the proposer had no tokens: it remains due. Proposals that the level above discarded count as
// nothing.
TEST(GammaController, TriesAgainWithoutAnOutcome) {
    Text text(flat(100), 60);
    text.grow(200, 0);
    GammaController lengths = text.lengths;
    for (int i = 0; i < 5000 && lengths.next(GammaController::kMost, true) == 0; ++i) lengths.observe({.tokens = 1});
    const int64_t asked = lengths.next(GammaController::kMost, true);
    ASSERT_GT(asked, 0);
    EXPECT_EQ(lengths.next(GammaController::kMost, false), 0) << "once a proposal of the level above";
    lengths.observe({.tokens = 1});
    EXPECT_EQ(lengths.next(GammaController::kMost, true), asked);
    const double alpha = lengths.alpha();
    lengths.observe({.tokens = 1, .asked = true});
    EXPECT_EQ(lengths.next(GammaController::kMost, true), 0);
    EXPECT_EQ(lengths.alpha(), alpha);
}

TEST(GammaController, BeginsEachTextAlike) {
    Text text(flat(100), 10);
    const int64_t first = text.lengths.next(GammaController::kMost, true);
    text.grow(500, 0);
    ASSERT_NE(text.lengths.next(GammaController::kMost, true), first);
    text.lengths.begin();
    EXPECT_EQ(text.lengths.next(GammaController::kMost, true), first);
}

TEST(GammaController, IsFixedOnRequest) {
    GammaController lengths(5);
    lengths.set_costs(line(0, 100), nullptr, 100);
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(lengths.next(GammaController::kMost, true), 5);
        EXPECT_EQ(lengths.next(3, false), 3);
        lengths.observe({.tokens = 1, .residual = 1, .asked = true});
    }
    EXPECT_NEAR(lengths.token_ms(), token_ms(line(0, 100), 100, lengths.alpha(), 5), 1e-9);
}

// As many costs as levels: the last level drafts by suffix lookup, whose time counts as 0, not by a model.
TEST(GammaController, ComposesOverAChainWithoutADraftModel) {
    const SpecCosts costs = {flat(100), line(10, 0.5)};
    std::vector<GammaController> lengths(2), free(2);
    set_costs(lengths, costs);
    set_costs(free, {costs[0], costs[1], flat(0)});
    for (size_t i = 0; i < 2; ++i) EXPECT_DOUBLE_EQ(lengths[i].token_ms(), free[i].token_ms());
    EXPECT_THROW(set_costs(lengths, {costs[0]}), Error);
    EXPECT_THROW(set_costs(lengths, {costs[0], costs[1], costs[1], costs[1]}), Error);
}

// The time per token of a level is the cost per proposed token of the level above.
TEST(GammaController, ComposesOverAChain) {
    const SpecCosts costs = {flat(100), line(10, 0.5), {.level = "draft", .points = {{1, 2}, {2, 5}}}};
    std::vector<GammaController> lengths(2);
    set_costs(lengths, costs);
    const int64_t inner = best_length(costs[1], 2, 0.75);
    ASSERT_GT(inner, 1);
    EXPECT_EQ(lengths[1].next(GammaController::kMost, true), inner);
    const double below = token_ms(costs[1], 2, 0.75, inner);
    EXPECT_NEAR(lengths[1].token_ms(), below, 1e-9);
    EXPECT_EQ(lengths[0].next(GammaController::kMost, true), best_length(costs[0], below, 0.75));

    // The draft's tokens are no longer accepted: the middle level continues without it, at its own cost.
    for (int i = 0; i < 100; ++i) lengths[1].observe({.tokens = 1, .residual = 1, .asked = true});
    EXPECT_EQ(lengths[1].next(GammaController::kMost, false), 0);
    EXPECT_DOUBLE_EQ(lengths[1].token_ms(), costs[1].ms(1));
    EXPECT_GT(lengths[0].next(GammaController::kMost, true), 0);
}

// Siblings fill rows that cost nothing. There are none where a row costs what a token costs.
TEST(GammaController, AddsSiblingsWhereRowsCostLittle) {
    const auto siblings = [](const LevelCosts& verifier, int64_t gamma, int64_t rows, int64_t rescued, int64_t missed) {
        GammaController lengths;
        lengths.set_costs(verifier, nullptr, 1);
        lengths.begin();
        for (int i = 0; i < 100; ++i)
            lengths.observe({.tokens = 10,
                             .accepted = 8,
                             .residual = 1 - rescued,
                             .rescued = rescued,
                             .missed = missed,
                             .asked = true});
        return lengths.siblings(gamma, rows);
    };
    EXPECT_EQ(siblings(flat(100), 4, 63, 1, 1), 7);
    EXPECT_EQ(siblings(flat(100), 15, 63, 1, 1), 3);  // 15 * 4 rows
    EXPECT_EQ(siblings(flat(100), 40, 63, 1, 1), 0);
    EXPECT_EQ(siblings(flat(100), 15, 63, 0, 1), 0);  // none is ever accepted
    EXPECT_EQ(siblings(line(0, 10), 15, 63, 1, 1), 0);
    const int64_t some = siblings(line(100, 0.4), 4, 63, 1, 1);
    EXPECT_GT(some, 0);
    EXPECT_LT(some, 7);
    EXPECT_EQ(siblings(flat(100), 0, 63, 1, 1), 0);
}

// A token of a chain that a sibling replaces was rejected.
TEST(GammaController, CountsASiblingAsARejectedToken) {
    GammaController one, other;
    for (GammaController* lengths : {&one, &other}) {
        lengths->set_costs(flat(10), nullptr, 1);
        lengths->begin();
    }
    for (int i = 0; i < 50; ++i) {
        one.observe({.tokens = 4, .accepted = 2, .residual = 0, .rescued = 1, .asked = true});
        other.observe({.tokens = 4, .accepted = 2, .residual = 1, .asked = true});
    }
    EXPECT_DOUBLE_EQ(one.alpha(), other.alpha());
}

// A tree of 20 nodes for every depth: the best depth is chosen, or none.
TEST(GammaController, WeighsTreesByWhatTheyTake) {
    std::vector<GammaController::Draft> trees;
    for (int64_t depth = 1; depth <= 8; ++depth) trees.push_back({.ms = 10 * static_cast<double>(depth), .rows = 21});
    const auto token_ms_of = [&](const LevelCosts& verifier, int64_t depth) {
        double tokens = 1, stay = 1;
        for (int64_t i = 0; i < depth; ++i) tokens += stay *= 0.75;
        return (10 * static_cast<double>(depth) + verifier.ms(21)) / tokens;
    };
    for (const LevelCosts& verifier : {flat(200), line(100, 1), line(20, 10)}) {
        GammaController lengths;
        lengths.set_costs(verifier, trees);
        int64_t best = 0;
        double least = 0.95 * verifier.ms(1);
        for (int64_t depth = 1; depth <= 8; ++depth) {
            if (token_ms_of(verifier, depth) >= least) continue;
            least = token_ms_of(verifier, depth);
            best = depth;
        }
        EXPECT_EQ(lengths.next(GammaController::kMost, true), best) << verifier.ms(1);
        EXPECT_EQ(lengths.next(2, true) > 0, best > 0);
    }
}

}  // namespace
}  // namespace trireme::test
