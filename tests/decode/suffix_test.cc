// Suffix lookup: what the proposer makes of the texts that it searches.

#include "decode/suffix.h"

#include <numeric>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/decode/linear_costs.h"
#include "tests/support/byte_archive.h"

namespace trireme::test {
namespace {

using Ids = std::vector<int32_t>;

Ids tokens_of(std::span<const Proposed> proposal) {
    Ids all;
    for (size_t i = 0; i < proposal.size(); ++i) {
        EXPECT_EQ(proposal[i].parent, static_cast<int32_t>(i) - 1);
        all.push_back(proposal[i].token);
    }
    return all;
}

/// Appends final tokens.
void say(Suffix& suffix, const Ids& tokens) {
    for (const int32_t token : tokens) suffix.resolve({}, token);
    suffix.commit();
}

Ids count_from(int32_t first, size_t n) {
    Ids all(n);
    std::iota(all.begin(), all.end(), first);
    return all;
}

TEST(SuffixProposer, ProposesMoreTheMoreItFinds) {
    Suffix suffix(63);
    suffix.prefill(count_from(0, 100), {});
    suffix.begin(0);
    say(suffix, {200, 10});
    EXPECT_THAT(tokens_of(suffix.propose(63)), testing::IsEmpty());  // one token is too few
    size_t before = 0;
    for (int32_t token = 11; token < 15; ++token) {
        say(suffix, {token});
        const Ids proposed = tokens_of(suffix.propose(63));
        EXPECT_EQ(proposed, count_from(token + 1, proposed.size()));
        EXPECT_GT(proposed.size(), before);
        before = proposed.size();
    }
    EXPECT_EQ(tokens_of(suffix.propose(2)), (Ids{15, 16}));
    say(suffix, {40});  // leaves the quotation
    EXPECT_THAT(tokens_of(suffix.propose(63)), testing::IsEmpty());
}

// With costs it proposes what minimises milliseconds per token: everything where rows are free, nothing where a row
// takes as long as a forward, and more of a longer part in between.
TEST(SuffixProposer, WeighsChancesAndCosts) {
    const auto proposed = [](double row, size_t found) {
        Suffix suffix(63);
        EXPECT_FALSE(suffix.chooses());
        suffix.set_costs(linear_costs(10, row));
        EXPECT_TRUE(suffix.chooses());
        suffix.prefill(count_from(0, 200), {});
        suffix.begin(0);
        say(suffix, {300});
        say(suffix, count_from(10, found));
        return std::ssize(suffix.propose(63));
    };
    EXPECT_EQ(proposed(0, 2), 63);
    EXPECT_EQ(proposed(10, 2), 0);
    EXPECT_GT(proposed(2, 2), 0);
    EXPECT_GT(proposed(2, 6), proposed(2, 2));
    EXPECT_GT(proposed(1, 6), proposed(2, 6));
}

// The choice is the best one by exhaustion over lengths.
TEST(SuffixProposer, NoOtherLengthIsBetter) {
    for (const double row : {0.1, 0.5, 1.5, 3.0}) {
        const LevelCosts costs = linear_costs(10, row);
        Suffix suffix(63);
        suffix.set_costs(costs);
        suffix.prefill(count_from(0, 200), {});
        suffix.begin(0);
        say(suffix, {300, 20, 21, 22});
        const auto chosen = std::ssize(suffix.propose(63));
        const auto token_ms = [&](int64_t n) {
            double tokens = 1, chance = 1;
            for (int64_t i = 0; i < n; ++i) tokens += chance *= Suffix::agrees(3 + i);
            return costs.ms(n + 1) / tokens;
        };
        for (int64_t n = 0; n <= 63; ++n) EXPECT_GE(token_ms(n) * (n == 0 ? 0.95 : 1), token_ms(chosen) * (1 - 1e-12));
    }
}

TEST(SuffixProposer, ProposesALoopInFull) {
    Suffix suffix(8);
    Ids loop;
    for (int i = 0; i < 20; ++i) loop.insert(loop.end(), {1, 2, 3});
    suffix.prefill(loop, {});
    suffix.begin(0);
    EXPECT_EQ(tokens_of(suffix.propose(8)), (Ids{1, 2, 3, 1, 2, 3, 1, 2}));
}

TEST(SuffixProposer, TakesTheMostFrequentFollower) {
    Suffix suffix(1);
    suffix.prefill(Ids{1, 2, 7, 1, 2, 7, 1, 2, 8}, {});
    suffix.begin(0);
    say(suffix, {1, 2});
    EXPECT_EQ(tokens_of(suffix.propose(1)), (Ids{7}));
}

TEST(SuffixProposer, EndsWhereFollowersAreManyAndRare) {
    Ids prompt;
    for (int32_t i = 0; i < 30; ++i) prompt.insert(prompt.end(), {1, 2, 3, 100 + i});
    Suffix suffix(63);
    suffix.prefill(prompt, {});
    suffix.begin(0);
    say(suffix, {99, 1, 2});
    EXPECT_EQ(tokens_of(suffix.propose(63)), (Ids{3}));  // then any of 30
}

TEST(SuffixProposer, ForgetsOpenTokensAndOtherSamples) {
    Suffix suffix(4);
    suffix.prefill(Ids{1, 2, 3, 4, 5, 6, 7, 8, 9}, {});
    suffix.begin(0);
    suffix.resolve({}, 3);
    suffix.resolve({}, 4);
    EXPECT_EQ(tokens_of(suffix.propose(4)), (Ids{5, 6, 7, 8}));
    suffix.resolve(Ids{0, 1}, 2);  // 5, 6, and 2 in place of 7
    suffix.rewind(2, 7);           // 5 6 2 becomes 5 7
    suffix.rewind(1, 6);           // 5 6
    EXPECT_EQ(tokens_of(suffix.propose(2)), (Ids{7, 8}));
    suffix.commit();
    say(suffix, {50, 51, 52, 60, 50, 51});
    EXPECT_EQ(tokens_of(suffix.propose(4)), (Ids{52, 60, 50, 51}));
    suffix.begin(1);
    say(suffix, {50, 51});
    EXPECT_THAT(tokens_of(suffix.propose(4)), testing::IsEmpty());
}

TEST(SuffixProposer, FindsPartsAcrossTheEndOfThePrompt) {
    Suffix suffix(4);
    suffix.prefill(Ids{9, 8, 1, 2}, {});
    suffix.begin(0);
    say(suffix, {3, 4, 5, 1, 2});
    EXPECT_EQ(tokens_of(suffix.propose(4)), (Ids{3, 4, 5, 1}));
}

TEST(SuffixProposer, SearchesTheCorpusButNeverAcrossItsTexts) {
    auto corpus = std::make_shared<SuffixAutomaton>();
    for (const int32_t token : {30, 31, 32, 33, -1, 40, 41}) corpus->append(token);
    Suffix suffix(63, corpus), other(63, corpus);
    for (Suffix* s : {&suffix, &other}) {
        s->prefill(Ids{1, 30}, {});  // the prompt's end counts
        s->begin(0);
    }
    say(suffix, {31});
    EXPECT_EQ(tokens_of(suffix.propose(63)), (Ids{32, 33}));
    EXPECT_THAT(tokens_of(other.propose(63)), testing::IsEmpty());
}

// The end of a corpus text proposes nothing; a shorter part elsewhere does.
TEST(SuffixProposer, LooksElsewhereWhereATextOfTheCorpusEnds) {
    auto corpus = std::make_shared<SuffixAutomaton>();
    for (const int32_t token : {30, 31, 32, 33, -1, 30, 31, 32, 33, -1}) corpus->append(token);
    Suffix suffix(63, corpus);
    suffix.prefill(Ids{1, 31, 32, 33, 99, 98, 97}, {});
    suffix.begin(0);
    say(suffix, {30, 31, 32, 33});
    EXPECT_EQ(tokens_of(suffix.propose(1)), (Ids{99}));
}

// The repeated part lies before the tokens that the output begins with.
TEST(SuffixProposer, FindsWhatThePromptsEndRepeats) {
    Ids prompt = count_from(0, 10);
    for (const int32_t token : count_from(100, 100)) prompt.push_back(token);
    prompt.insert(prompt.end(), {0, 1, 2});
    Suffix suffix(4);
    suffix.prefill(prompt, {});
    for (const uint32_t sample : {0U, 1U}) {
        suffix.begin(sample);
        EXPECT_EQ(tokens_of(suffix.propose(4)), (Ids{3, 4, 5, 6}));
        say(suffix, {50, 51});
    }
}

// A sample begins with the prompt's end alone, not with what the sample before it repeated.
TEST(SuffixProposer, ForgetsWhatAnotherSampleRepeated) {
    Suffix suffix(4);
    suffix.prefill(count_from(0, 100), {});
    suffix.begin(0);
    say(suffix, {90, 91, 92});
    EXPECT_EQ(tokens_of(suffix.propose(4)), (Ids{93, 94, 95, 96}));
    suffix.begin(1);
    EXPECT_THAT(tokens_of(suffix.propose(4)), testing::IsEmpty());
}

// The longest part ends its text, and a token alone is too short; another text continues.
TEST(SuffixProposer, PrefersAPartThatIsContinued) {
    auto corpus = std::make_shared<SuffixAutomaton>();
    for (const int32_t token : {33, 55, 30, 31, 32, 33}) corpus->append(token);
    Suffix suffix(1, corpus);
    suffix.prefill(Ids{1, 32, 33, 99, 98}, {});
    suffix.begin(0);
    say(suffix, {30, 31, 32, 33});
    EXPECT_EQ(tokens_of(suffix.propose(1)), (Ids{99}));
}

TEST(SuffixProposer, EndsWhereItsTextEnds) {
    auto corpus = std::make_shared<SuffixAutomaton>();
    for (const int32_t token : {9, 5, 6, 1, 2, 3, 9}) corpus->append(token);
    Suffix suffix(8, corpus);
    suffix.prefill(Ids{70}, {});
    suffix.begin(0);
    say(suffix, {1, 2});
    EXPECT_EQ(tokens_of(suffix.propose(8)), (Ids{3, 9}));  // 9 alone would be followed by 5
}

TEST(SuffixProposer, OfPartsOfOneLengthTheOutputsCounts) {
    Ids prompt = {1, 2, 7};
    for (const int32_t token : count_from(100, 100)) prompt.push_back(token);
    Suffix suffix(1);
    suffix.prefill(prompt, {});
    suffix.begin(0);
    say(suffix, {1, 2, 8, 50, 1, 2});
    EXPECT_EQ(tokens_of(suffix.propose(1)), (Ids{8}));
}

TEST(SuffixProposer, OfLengthsAsGoodTheShortestCounts) {
    const double one = 1 + Suffix::agrees(2), two = one + Suffix::agrees(2) * Suffix::agrees(3);
    const LevelCosts costs = {"full", {{1, 1.5}, {2, one}, {3, two}, {4, 1000}}};
    ASSERT_EQ(costs.ms(2) / one, costs.ms(3) / two);
    Suffix suffix(8);
    suffix.set_costs(costs);
    suffix.prefill(count_from(0, 100), {});
    suffix.begin(0);
    say(suffix, {200, 10, 11});
    EXPECT_EQ(tokens_of(suffix.propose(8)), (Ids{12}));
}

TEST(SuffixProposer, TokenZeroIsAToken) {
    Suffix suffix(3);
    suffix.prefill(Ids{5, 6, 0, 7, 8, 9, 6, 5, 4}, {});
    suffix.begin(0);
    say(suffix, {5, 6});
    EXPECT_EQ(tokens_of(suffix.propose(3)), (Ids{0, 7, 8}));
    suffix.resolve({}, 0);
    EXPECT_EQ(tokens_of(suffix.propose(2)), (Ids{7, 8}));
    suffix.resolve({}, 3);
    suffix.rewind(2, 0);  // 0 3 becomes 0
    EXPECT_EQ(tokens_of(suffix.propose(2)), (Ids{7, 8}));
    EXPECT_THROW(suffix.rewind(2, 1), Error);
    EXPECT_THROW(suffix.rewind(-1, 1), Error);
    suffix.rewind(1, -1);
    suffix.rewind(0, -1);
    EXPECT_EQ(tokens_of(suffix.propose(1)), (Ids{0}));
}

TEST(SuffixProposer, ContinuesFromAnArchive) {
    Suffix suffix(8), resumed(8);
    suffix.prefill(Ids{1, 2, 3, 4, 5, 6}, {});
    suffix.begin(3);
    say(suffix, {9, 8, 7, 9, 8});
    ByteArchive archive;
    suffix.state(archive);
    resumed.prefill(Ids{1}, {});
    archive.rewind();
    resumed.state(archive);
    for (const Ids& more : {Ids{}, Ids{2, 3}, Ids{8}}) {
        say(suffix, more);
        say(resumed, more);
        EXPECT_EQ(tokens_of(resumed.propose(8)), tokens_of(suffix.propose(8)));
    }
}

}  // namespace
}  // namespace trireme::test
