// Suffix lookup: the automaton against searches of the whole text, and what the proposer makes of it.

#include "decode/suffix.h"

#include <numeric>
#include <random>
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

SuffixAutomaton automaton_of(const Ids& text) {
    SuffixAutomaton a;
    for (const int32_t token : text) a.append(token);
    return a;
}

/// The match of the whole text.
SuffixAutomaton::Match automaton_end(const SuffixAutomaton& a, const Ids& text) {
    SuffixAutomaton::Match match;
    for (const int32_t token : text) match = a.next(match, token);
    return match;
}

/// How often `part` occurs in `text`.
int count(const Ids& text, std::span<const int32_t> part) {
    int n = 0;
    for (size_t at = 0; at + part.size() <= text.size(); ++at) {
        n += std::equal(part.begin(), part.end(), text.begin() + static_cast<std::ptrdiff_t>(at)) ? 1 : 0;
    }
    return n;
}

/// The length of the longest end of `sequence` that occurs in `text`.
size_t longest_end(const Ids& text, const Ids& sequence) {
    for (size_t n = sequence.size(); n > 0; --n) {
        if (count(text, std::span(sequence).last(n)) > 0) return n;
    }
    return 0;
}

TEST(SuffixAutomaton, FindsWhatASearchOfTheTextFinds) {
    std::mt19937 draw(1);
    for (int round = 0; round < 60; ++round) {
        const auto token = [&] { return static_cast<int32_t>(draw() % static_cast<unsigned>(2 + round % 7)); };
        Ids text, sequence;
        SuffixAutomaton a;
        for (size_t n = draw() % 120; text.size() < n;) {
            text.push_back(token());
            a.append(text.back());
        }
        ASSERT_EQ(a.size(), std::ssize(text));
        SuffixAutomaton::Match match;
        for (int i = 0; i < 60; ++i) {
            sequence.push_back(token());
            match = a.next(match, sequence.back());
            ASSERT_EQ(match.length, static_cast<int32_t>(longest_end(text, sequence)));
            const SuffixAutomaton::Follower next = a.follower(match);
            if (text.empty()) {
                EXPECT_EQ(next.token, -1);
                continue;
            }
            ASSERT_GE(next.count, 1);
            // The part that was followed is the longest end of the match that has a follower at all.
            Ids part(sequence.end() - (next.after.length - 1), sequence.end());
            EXPECT_EQ(next.of, part.empty() ? a.size() : count(Ids(text.begin(), text.end() - 1), part));
            part.push_back(next.token);
            EXPECT_EQ(next.count, count(text, part));
            for (int32_t other = 0; other < 8; ++other) {
                part.back() = other;
                EXPECT_LE(count(text, part), next.count) << "a more frequent follower";
            }
            if (next.after.length <= match.length) {
                Ids longer(sequence.end() - next.after.length, sequence.end());
                EXPECT_EQ(count(Ids(text.begin(), text.end() - 1), longer), 0) << "a longer end has a follower";
            }
        }
    }
}

TEST(SuffixAutomaton, KnowsWhatItsEndRepeats) {
    EXPECT_EQ(automaton_of({}).repeated().length, 0);
    EXPECT_EQ(automaton_of({}).follower({}).token, -1);
    EXPECT_EQ(automaton_of({1}).repeated().length, 0);
    EXPECT_EQ(automaton_of({1, 2, 3, 1, 2}).repeated().length, 2);
    EXPECT_EQ(automaton_of({7, 7, 7, 7}).repeated().length, 3);  // occurrences may overlap
}

TEST(SuffixAutomaton, OfTwoFollowersAsFrequentTheLatestCounts) {
    const SuffixAutomaton a = automaton_of({5, 1, 8, 5, 2, 9});
    EXPECT_EQ(a.follower(a.next({}, 5)).token, 2);
}

// Without a match, the most frequent token of the whole text follows. Token 0 and the first edge are as any other.
TEST(SuffixAutomaton, EveryShortTextHasItsMostFrequentToken) {
    for (int number = 0; number < 3 * 3 * 3 * 3 * 3 * 3; ++number) {
        Ids text;
        for (int rest = number; std::ssize(text) < 6; rest /= 3) text.push_back(rest % 3);
        for (; !text.empty(); text.pop_back()) {
            const SuffixAutomaton a = automaton_of(text);
            const SuffixAutomaton::Follower first = a.follower({});
            EXPECT_EQ(first.of, std::ssize(text));
            int most = 0;
            for (int32_t token = 0; token < 3; ++token) most = std::max(most, count(text, Ids{token}));
            EXPECT_EQ(first.count, most);
            EXPECT_EQ(count(text, Ids{first.token}), most);
            EXPECT_EQ(first.after.length, 1);
            // Nothing followed the whole text, whose last token may be the only one.
            EXPECT_GE(a.follower(automaton_end(a, text)).count, 1);
        }
    }
}

// A token counts an occurrence of at most 64 ends of the text, the longest first.
TEST(SuffixAutomaton, CountsTheLongestEndsOfALoop) {
    const SuffixAutomaton a = automaton_of(Ids(100, 7));
    SuffixAutomaton::Match match;
    for (int length = 0; length < 100; ++length) {
        EXPECT_EQ(a.follower(match).of, std::min(64, 100 - length)) << length;
        match = a.next(match, 7);
    }
}

TEST(SuffixAutomaton, ALongLoopTakesNoTimePerOccurrence) {
    SuffixAutomaton a;
    for (int i = 0; i < 200'000; ++i) a.append(i % 3);
    const SuffixAutomaton::Follower next = a.follower(a.repeated());
    EXPECT_EQ(next.token, 200'000 % 3);
    EXPECT_GT(next.count, 0);
}

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
