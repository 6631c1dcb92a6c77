// SuffixAutomaton against searches of the whole text.

#include "decode/suffix_automaton.h"

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trireme::test
