// The worked example under the rules of other implementations, which are emulated here. The emulations give the numbers
// of the specification (h2o.md 8.4). Our rule retains other tokens of the same input, those of 8.3.

#include "tests/kernels/slots_worked.h"

namespace trireme::test {
namespace {

/// The attention that query `i` gives to these tokens, which include `i`.
Weights row_of(int32_t i, const Tokens& tokens) {
    Weights row;
    double all = 0;
    for (const int32_t j : tokens) all += row.emplace_back(kWorked[static_cast<size_t>(i)][static_cast<size_t>(j)]);
    for (double& w : row) w /= all;
    return row;
}

std::vector<size_t> best(const Weights& scores, size_t candidates, size_t n) {
    std::vector<size_t> rank(candidates);
    std::iota(rank.begin(), rank.end(), size_t{0});
    std::ranges::stable_sort(rank, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    rank.resize(n);
    return rank;
}

/// utils_hh: nothing is evicted; a mask hides tokens from the next query. `heavy` and `recent` are ratios of the
/// prompt. The token between the recent ones and the candidates is hidden for a step and competes in the next one.
struct Masked {
    Masked(int32_t prompt, double heavy_ratio, double recent_ratio)
        : heavy(static_cast<size_t>(heavy_ratio * prompt)), recent(static_cast<size_t>(recent_ratio * prompt)) {
        Tokens all(static_cast<size_t>(prompt));
        std::iota(all.begin(), all.end(), 0);
        scores = attention_of(kWorked, all, prompt);
        mask();
    }
    void step() {
        const auto token = static_cast<int32_t>(scores.size());
        const Weights row = row_of(token, visible);
        scores.push_back(0);
        for (size_t i = 0; i < row.size(); ++i) scores[static_cast<size_t>(visible[i])] += row[i];
        mask();
    }
    /// Updates `visible`: the tokens that the next query sees, itself last.
    void mask() {
        const size_t n = scores.size();
        visible.clear();
        for (const size_t i : best(scores, n - recent, heavy)) visible.push_back(static_cast<int32_t>(i));
        for (size_t i = 0; i < n - recent; ++i) {
            if (std::ranges::count(visible, static_cast<int32_t>(i)) == 0) scores[i] = 0;
        }
        for (size_t i = n + 1 - recent; i <= n; ++i) visible.push_back(static_cast<int32_t>(i));
        std::ranges::sort(visible);
    }

    size_t heavy, recent;
    Weights scores;
    Tokens visible;
};

/// FlexGen: K slots of heavy hitters, a ring of K - 1 recent tokens, one slot for the incoming token. A token that
/// leaves the ring takes the slot of the weakest heavy hitter, whatever their scores.
struct Ring {
    Ring(size_t k_, int32_t prompt) : k(k_) {
        Tokens all(static_cast<size_t>(prompt));
        std::iota(all.begin(), all.end(), 0);
        const Weights sums = attention_of(kWorked, all, prompt);
        const size_t first_recent = all.size() - (k - 1);
        for (const size_t i : best(sums, first_recent, k)) slots.push_back(all[i]);
        for (size_t i = first_recent; i < all.size(); ++i) slots.push_back(all[i]);
        for (const int32_t t : slots) scores.push_back(sums[static_cast<size_t>(t)]);
        next = prompt;
    }
    /// Returns the evicted token.
    int32_t step() {
        attended = slots;
        attended.push_back(next);
        const Weights row = row_of(next, attended);
        for (size_t i = 0; i < scores.size(); ++i) scores[i] += row[i];
        const auto weakest = static_cast<size_t>(
            std::min_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(k)) - scores.begin());
        const size_t oldest = k + steps++ % (k - 1);
        const int32_t out = slots[weakest];
        slots[weakest] = slots[oldest];
        scores[weakest] = scores[oldest];
        slots[oldest] = next++;
        scores[oldest] = row.back();
        return out;
    }

    size_t k, steps = 0;
    Tokens slots, attended;
    Weights scores;
    int32_t next = 0;
};

TEST(SlotsOtherRules, MasksHideATokenForAStep) {
    Masked other(5, 0.4, 0.4);
    EXPECT_EQ(other.visible, (Tokens{0, 1, 4, 5}));
    other.step();
    EXPECT_EQ(other.scores, (Weights{3.0, 1.25, 0, 0, 0.375, 0.25}));
    EXPECT_EQ(other.visible, (Tokens{0, 1, 5, 6}));
    other.step();
    EXPECT_EQ(other.visible, (Tokens{0, 1, 6, 7}));

    Worked ours;
    ours.call(5);
    EXPECT_EQ(ours.with(1), (Tokens{0, 1, 3, 4, 5}));  // one more than a mask shows
    ours.step();
    EXPECT_EQ(ours.slots.scored(0, 0), (std::vector<float>{2.8125, 1.125, 0.1875, 0.0625}));
    EXPECT_EQ(ours.with(1), (Tokens{0, 3, 4, 5, 6}));  // token 3 has competed at once, and is retained
    ours.step();
    EXPECT_EQ(ours.with(1), (Tokens{0, 3, 5, 6, 7}));
}

TEST(SlotsOtherRules, ARingPromotesTokensThatLeaveIt) {
    Ring other(2, 5);
    EXPECT_EQ(other.slots, (Tokens{0, 1, 4}));
    EXPECT_EQ(other.step(), 1);
    EXPECT_EQ(other.attended, (Tokens{0, 1, 4, 5}));
    EXPECT_EQ(other.slots, (Tokens{0, 4, 5}));
    EXPECT_EQ(other.step(), 4);
    EXPECT_EQ(other.attended, (Tokens{0, 4, 5, 6}));
    EXPECT_EQ(other.slots, (Tokens{0, 5, 6}));
    EXPECT_EQ(other.step(), 5);
    EXPECT_EQ(other.attended, (Tokens{0, 5, 6, 7}));
    EXPECT_EQ(other.slots, (Tokens{0, 6, 7}));

    Worked ours;
    ours.call(5);
    for (const Tokens& want : {Tokens{0, 3, 4, 5}, Tokens{0, 3, 5, 6}, Tokens{0, 5, 6, 7}}) {
        ours.step();
        EXPECT_EQ(ours.slots.kept(0, 0), want);
    }
}

TEST(SlotsOtherRules, ARingOfTwoIsOutOfOrder) {
    Ring other(3, 6);
    EXPECT_EQ(other.slots, (Tokens{0, 2, 1, 4, 5}));
    EXPECT_EQ(other.step(), 1);
    EXPECT_EQ(other.slots, (Tokens{0, 2, 4, 6, 5}));
    EXPECT_EQ(other.step(), 4);
    EXPECT_EQ(other.slots, (Tokens{0, 2, 5, 6, 7}));

    // H = 3, R = 3: the same number of slots. Token 1 is retained: it is worth more than token 4.
    Worked ours({.by = ScoreBy::kSum, .recent = 3}, 6);
    ours.call(6);
    EXPECT_EQ(ours.slots.kept(0, 0), (Tokens{0, 1, 2, 3, 4, 5}));
    ours.step();
    EXPECT_EQ(ours.slots.kept(0, 0), (Tokens{0, 1, 2, 4, 5, 6}));
    EXPECT_EQ(ours.slots.scored(0, 0), (std::vector<float>{2.8125, 1.5, 1.53125, 0.1875, 0.15625, 0.03125}));
    ours.step();
    EXPECT_EQ(ours.slots.kept(0, 0), (Tokens{0, 1, 2, 5, 6, 7}));
}

TEST(SlotsOtherRules, MeansWithoutAWindowDropTheNewest) {
    const Tokens prompt = {0, 1, 2, 3, 4};
    Weights means = attention_of(kWorked, prompt, 5);
    for (size_t i = 0; i < means.size(); ++i) means[i] /= static_cast<double>(means.size() - i);
    EXPECT_EQ(means, (Weights{0.55, 0.25, 0.25, 0.1875, 0.125}));
    std::vector<size_t> kept = best(means, 5, 4);
    std::ranges::sort(kept);
    EXPECT_EQ(kept, (std::vector<size_t>{0, 1, 2, 3}));

    for (const bool per_query : {false, true}) {
        Worked ours({.by = ScoreBy::kSum, .per_query = per_query, .recent = 2});
        ours.call(5);
        EXPECT_EQ(ours.slots.kept(0, 0), (Tokens{0, 1, 3, 4}));
        EXPECT_EQ(ours.slots.scored(0, 0), (std::vector<float>{2.75, 1.0, 0.375, 0.125}));
    }
}

}  // namespace
}  // namespace trireme::test
