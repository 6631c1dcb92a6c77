// Siblings in Speculate: how many are requested, which ones the level gives to its own tokens, and what is counted.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/speculate.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/byte_archive.h"

namespace trireme::test {
namespace {

/// Proposes chains of the known continuation, or wrong tokens whose first sibling is the known one. Records widen().
class Widened final : public Proposer {
  public:
    explicit Widened(std::vector<int32_t> known) : known_(std::move(known)) {}
    const char* name() const override { return "widened"; }
    void prefill(std::span<const int32_t>, const Progress&) override {}
    void begin(uint32_t) override { text.clear(); }
    void widen(int64_t n) override { widths.push_back(n); }
    std::span<const Proposed> propose(int64_t limit) override {
        proposal_.clear();
        for (int64_t i = 0; i < limit && text.size() + static_cast<size_t>(i) < known_.size(); ++i) {
            const int32_t right = known_[text.size() + static_cast<size_t>(i)];
            const auto parent = static_cast<int32_t>(proposal_.size()) - 1;
            if (wrong) {  // token 3 is a byte that no text contains
                proposal_ = {{.token = 3, .parent = -1}, {.token = right, .parent = -1}};
                break;
            }
            proposal_.push_back({.token = right, .parent = parent});
        }
        return proposal_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override {
        for (const int32_t i : path) text.push_back(proposal_[static_cast<size_t>(i)].token);
        if (next >= 0) text.push_back(next);
    }
    void rewind(int64_t n, int32_t next) override {
        text.resize(text.size() - static_cast<size_t>(n));
        if (next >= 0) text.push_back(next);
    }
    bool wrong = false;
    std::vector<int64_t> widths;
    std::vector<int32_t> text;

  private:
    std::vector<int32_t> known_;
    std::vector<Proposed> proposal_;
};

class SpeculationSiblings : public KjvPrompt {
  protected:
    void SetUp() override {
        request.max_new = 90;
        plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    }
    /// Decodes the first token, so that a round follows.
    void begin(Speculate& level) {
        level.prefill(request.prompt, {});
        level.begin(0);
        level.propose(1);
        level.resolve(std::vector<int32_t>{0}, -1);
    }
    /// What a level below the full model proposes after the first token, with `width` siblings of each token.
    std::vector<Proposed> propose(Speculate& level, int64_t width) {
        begin(level);
        level.commit();
        level.widen(width);
        const std::span<const Proposed> proposed = level.propose(5);
        engine->stream().synchronize();
        return {proposed.begin(), proposed.end()};
    }
    std::vector<int32_t> plain;
};

// A chain of g tokens with n siblings each takes g (n + 1) rows, and the last token takes one.
TEST_F(SpeculationSiblings, AreAsManyAsThereAreRowsFor) {
    struct Case {
        int64_t gamma, siblings, width;
    };
    for (const auto& [gamma, siblings, width] : {Case{1, 2, 2}, Case{1, 1, 1}, Case{16, 2, 2}, Case{16, 3, 2},
                                                 Case{21, 3, 2}, Case{31, 3, 1}, Case{32, 3, 0}}) {
        Widened proposer(plain);
        GammaController fixed(gamma);
        fixed.set_costs({"full", {{1, 1}}}, nullptr, 1);
        Speculate speculate(proposer, *engine, request.sampling, 0, {.gamma = &fixed, .siblings = siblings});
        begin(speculate);

        EXPECT_EQ(speculate.draft(100), gamma + 1);
        EXPECT_EQ(proposer.widths, std::vector<int64_t>{width}) << gamma << " tokens, " << siblings << " siblings";
    }
}

TEST_F(SpeculationSiblings, AreNotRequestedWhereNothingIsDrafted) {
    Widened proposer(plain);
    GammaController off;
    off.set_costs({"full", {{1, 1}}}, nullptr, 100);
    Speculate speculate(proposer, *engine, request.sampling, 0, {.gamma = &off, .siblings = 2});

    EXPECT_EQ(ids_of(speculate, request, stats), plain);
    EXPECT_EQ(proposer.widths, std::vector<int64_t>());
}

/// A level above the model: its proposals carry siblings of its own tokens.
struct Middle {
    Middle(Engine& engine, Proposer& proposer, const SamplingParams& sampling)
        : held(engine.device(), *engine, 20),
          level(proposer, *engine, sampling, 0, {.level = 1, .wanted = 4, .held = &held}) {}
    DraftDistributions held;
    Speculate level;
};

/// At temperature 0, siblings are the most probable tokens after the chain's own one, in order.
void expect_ranked(std::span<const Proposed> proposed, int64_t width) {
    const auto family = static_cast<size_t>(width) + 1;
    for (size_t i = 0; i < proposed.size(); i += family) {
        const float* logits = proposed[i].distribution.row.data;
        for (size_t n = 0; n < family; ++n) {
            const auto better = [&](float x) { return x > logits[proposed[i + n].token]; };
            EXPECT_EQ(std::count_if(logits, logits + 1024, better), std::ssize(proposed.subspan(i, n))) << i;
            EXPECT_EQ(proposed[i + n].parent, proposed[i].parent);
        }
    }
}

TEST_F(SpeculationSiblings, OfVerifiedTokensAreTheNextMostProbableOnes) {
    for (const int64_t width : {1, 2, 3}) {
        Widened proposer(plain);
        Middle middle(engine, proposer, request.sampling);
        const std::vector<Proposed> proposed = propose(middle.level, width);

        ASSERT_GE(std::ssize(proposed), 4 * (width + 1));
        expect_ranked(proposed, width);
        for (size_t i = 0; i < proposed.size(); i += static_cast<size_t>(width) + 1) {
            EXPECT_EQ(proposed[i].token, plain[1 + i / (static_cast<size_t>(width) + 1)]);
        }
    }
}

// From the second round on, the first forward has two rows: the last drafted token's and the next one's.
TEST_F(SpeculationSiblings, OfADraftersTokensAreTheNextMostProbableOnes) {
    Engine draft{data_path("models/kjv-draft"), kExact, comm};
    Drafter drafter("draft", draft.device(), *draft, request.sampling, 0, 1, 3);
    drafter.prefill(request.prompt, {});
    drafter.begin(0);
    drafter.widen(2);
    for (int round = 0; round < 3; ++round) {
        const std::span<const Proposed> proposed = drafter.propose(3);
        draft->stream().synchronize();
        ASSERT_EQ(proposed.size(), 9u);
        expect_ranked(proposed, 2);
        drafter.resolve(std::vector<int32_t>{0, 3, 6}, plain[static_cast<size_t>(round)]);
        drafter.commit();
    }
}

// The level and its proposer go back to the token that the sibling replaces.
TEST_F(SpeculationSiblings, ReplaceATokenOfTheLevelsBelow) {
    Widened proposer(plain);
    Middle middle(engine, proposer, request.sampling);
    const std::vector<Proposed> proposed = propose(middle.level, 1);
    ASSERT_GE(proposed.size(), 6u);  // tokens 0, 2, 4 of the chain and their siblings

    middle.level.resolve(std::vector<int32_t>{0, 2, 5}, 7);
    middle.level.commit();

    EXPECT_EQ(proposer.text, (std::vector<int32_t>{plain[0], plain[1], plain[2], proposed[5].token, 7}));
    middle.level.widen(0);
    const std::span<const Proposed> next = middle.level.propose(1);
    engine->stream().synchronize();
    // What follows is what plain decoding says after the same text.
    std::vector<int32_t> prompt = request.prompt;
    prompt.insert(prompt.end(), proposer.text.begin(), proposer.text.end() - 1);
    ASSERT_EQ(next.size(), 1u);
    request.prompt = prompt;
    request.max_new = 1;
    EXPECT_EQ(generate(*engine, tokenizer.get(), request, stats).at(0).ids, std::vector<int32_t>{next[0].token});
}

// Each round's first token is wrong and its sibling right. If siblings are always accepted, one sibling is worth two
// thirds of a forward; if half of them were, it would not be.
TEST_F(SpeculationSiblings, AreCountedAsAcceptedOnes) {
    Widened proposer(plain);
    proposer.wrong = true;
    GammaController lengths(2);
    const LevelCosts costs = {"full", {{1, 10}, {2, 10}, {3, 10}, {4, 10}, {5, 16}, {6, 26}, {kMaxRows, 1000}}};
    lengths.set_costs(costs, nullptr, 0);
    Speculate speculate(proposer, *engine, request.sampling, 0, {.gamma = &lengths, .siblings = 1});

    EXPECT_EQ(ids_of(speculate, request, stats), plain);
    EXPECT_GT(speculate.stats().rescued, 35);
    EXPECT_EQ(speculate.stats().rescued, speculate.stats().siblings);
    EXPECT_EQ(lengths.siblings(2, 63), 1);
}

/// Proposes a right or a wrong token with siblings, or a right one and then a wrong one.
class InTurn final : public Proposer {
  public:
    explicit InTurn(std::vector<int32_t> known) : known_(std::move(known)) {}
    const char* name() const override { return "in turn"; }
    void prefill(std::span<const int32_t>, const Progress&) override {}
    void begin(uint32_t) override {}
    std::span<const Proposed> propose(int64_t) override {
        const int32_t right = known_.at(at_), later = known_.at(at_ + 1);
        constexpr int32_t kWrong = 3;  // a byte that no text contains
        switch (round++ % 5) {
            case 0:
                proposal_ = {{right, -1}, {kWrong, -1}};
                break;
            case 1:
                proposal_ = {{kWrong, -1}, {right, -1}};
                break;
            case 2:
                proposal_ = {{kWrong, -1}, {kWrong + 1, -1}, {right, -1}, {kWrong + 2, -1}};
                break;
            case 3:
                proposal_ = {{kWrong, -1}, {kWrong + 1, -1}, {kWrong + 2, -1}};
                break;
            default:
                proposal_ = {{right, -1}, {kWrong, -1}, {kWrong, 0}, {later, 0}, {kWrong + 1, 0}};
                break;
        }
        return proposal_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override { at_ += path.size() + (next >= 0 ? 1 : 0); }
    void rewind(int64_t n, int32_t next) override { at_ -= static_cast<size_t>(n - (next >= 0 ? 1 : 0)); }
    int round = 0;

  private:
    std::vector<int32_t> known_;
    size_t at_ = 0;
    std::vector<Proposed> proposal_;
};

/// All bytes that a controller keeps. A copy of a controller has the same ones, padding included.
std::vector<std::byte> state_of(GammaController& gamma) {
    ByteArchive archive;
    gamma.state(archive);
    return {archive.all().begin(), archive.all().end()};
}

// The controller hears of each round's tokens, and of the siblings that the verifier tried.
TEST_F(SpeculationSiblings, CountWhereTheyWereTried) {
    using Outcome = GammaController::Outcome;
    const std::array<Outcome, 5> outcomes = {{
        {.tokens = 2, .accepted = 1, .asked = true},                // the sibling was not tried
        {.tokens = 2, .rescued = 1, .asked = true},                 //
        {.tokens = 2, .rescued = 1, .missed = 1, .asked = true},    // nor was the third one
        {.tokens = 1, .residual = 1, .missed = 2, .asked = true},   //
        {.tokens = 3, .accepted = 1, .rescued = 1, .asked = true},  // nor was the first token's
    }};
    InTurn proposer(plain);
    GammaController heard(2);
    Speculate speculate(proposer, *engine, request.sampling, 0, {.gamma = &heard, .siblings = 3});
    begin(speculate);
    GammaController expected = heard;
    for (const Outcome& outcome : outcomes) {
        const auto proposed = speculate.propose(4);
        std::vector<int32_t> all(proposed.size());
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
        EXPECT_EQ(std::ssize(all), outcome.tokens) << proposer.round;
        speculate.resolve(all, -1);
        expected.observe(outcome);
        EXPECT_EQ(state_of(heard), state_of(expected)) << proposer.round;
    }
}

TEST(SpeculationStats, AreAdded) {
    SpeculationStats one, sum;
    one.rounds = 2, one.asked = 3, one.off = 4, one.proposed = 5, one.accepted = 6, one.siblings = 7, one.rescued = 8;
    one.draft_ns = 9, one.verify_ns = 10;
    one.proposed_at.front() = 11, one.proposed_at.back() = 12;
    one.accepted_at.front() = 13, one.accepted_at.back() = 14;
    for (int i = 0; i < 3; ++i) sum += one;
    EXPECT_EQ(sum.rounds, 6);
    EXPECT_EQ(sum.asked, 9);
    EXPECT_EQ(sum.off, 12);
    EXPECT_EQ(sum.proposed, 15);
    EXPECT_EQ(sum.accepted, 18);
    EXPECT_EQ(sum.siblings, 21);
    EXPECT_EQ(sum.rescued, 24);
    EXPECT_EQ(sum.draft_ns, 27u);
    EXPECT_EQ(sum.verify_ns, 30u);
    EXPECT_EQ(sum.proposed_at.front(), 33);
    EXPECT_EQ(sum.proposed_at.back(), 36);
    EXPECT_EQ(sum.accepted_at.front(), 39);
    EXPECT_EQ(sum.accepted_at.back(), 42);
    EXPECT_FALSE(sum.branched);
    one.branched = true;
    EXPECT_TRUE((sum += one).branched);
}

}  // namespace
}  // namespace trireme::test
