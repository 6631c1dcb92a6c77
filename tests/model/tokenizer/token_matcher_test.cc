#include "model/tokenizer/token_matcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

AddedToken token(const std::string& text, int32_t id) {
    AddedToken made;
    made.text = text;
    made.id = id;
    return made;
}

/// Segments as "plain" or "text#id".
std::vector<std::string> split(const TokenMatcher& matcher, std::string_view text) {
    std::vector<std::string> parts;
    for (const Segment& segment : matcher.split(text))
        parts.push_back(segment.id < 0 ? std::string(segment.text) : fmt::format("{}#{}", segment.text, segment.id));
    return parts;
}

using Parts = std::vector<std::string>;

TEST(TokenMatcher, FindsTokensBetweenPlainText) {
    const TokenMatcher matcher({token("<s>", 1), token("</s>", 2)});

    EXPECT_EQ(split(matcher, "a<s>b</s>"), (Parts{"a", "<s>#1", "b", "</s>#2"}));
    EXPECT_EQ(split(matcher, "<s><s>"), (Parts{"<s>#1", "<s>#1"}));
    EXPECT_EQ(split(matcher, "<s < s>"), (Parts{"<s < s>"}));
    EXPECT_EQ(split(matcher, ""), Parts{});
    EXPECT_EQ(split(TokenMatcher(), "<s>"), Parts{"<s>"});
}

TEST(TokenMatcher, PrefersTheLeftmostThenTheLongest) {
    const TokenMatcher matcher({token("ab", 1), token("abcd", 2), token("bcde", 3), token("b", 4)});

    EXPECT_EQ(split(matcher, "abcde"), (Parts{"abcd#2", "e"}));
    EXPECT_EQ(split(matcher, "abce"), (Parts{"ab#1", "ce"}));
    EXPECT_EQ(split(matcher, "bcde"), (Parts{"bcde#3"}));
    EXPECT_EQ(split(matcher, "xbab"), (Parts{"x", "b#4", "ab#1"}));
}

TEST(TokenMatcher, TakesTheFirstOfTwoEqualTextsAndNoEmptyOne) {
    const TokenMatcher matcher({token("a", 1), token("", 2), token("a", 3)});
    EXPECT_EQ(split(matcher, "ba"), (Parts{"b", "a#1"}));
}

TEST(TokenMatcher, StripsWhiteSpaceWhereAsked) {
    AddedToken left = token("L", 1);
    left.lstrip = true;
    AddedToken right = token("R", 2);
    right.rstrip = true;
    const TokenMatcher matcher({left, right});

    EXPECT_EQ(split(matcher, "a \u00A0\nL b"), (Parts{"a", " \u00A0\nL#1", " b"}));
    EXPECT_EQ(split(matcher, "a R\t b"), (Parts{"a ", "R\t #2", "b"}));
    EXPECT_EQ(split(matcher, "R  L"), (Parts{"R  #2", "L#1"}));  // the space is taken once
    EXPECT_EQ(split(matcher, " \xFF L"), (Parts{" \xFF", " L#1"}));
}

TEST(TokenMatcher, KeepsSingleWordsApart) {
    AddedToken word = token("word", 1);
    word.single_word = true;
    const TokenMatcher matcher({word, token("x", 2)});

    EXPECT_EQ(split(matcher, "word"), (Parts{"word#1"}));
    EXPECT_EQ(split(matcher, "a word, x"), (Parts{"a ", "word#1", ", ", "x#2"}));
    EXPECT_EQ(split(matcher, "words"), (Parts{"words"}));
    EXPECT_EQ(split(matcher, "_word"), (Parts{"_word"}));
    EXPECT_EQ(split(matcher, "\u00E9word word\u0301"), (Parts{"\u00E9word word\u0301"}));
    EXPECT_EQ(split(matcher, "\xFFword\xFF"), (Parts{"\xFF", "word#1", "\xFF"}));
}

TEST(TokenMatcher, LongestIgnoresTheSurroundings) {
    const TokenMatcher matcher({token("a", 1), token("aaa", 2)});

    EXPECT_EQ(matcher.longest("aaaa")->id, 2);
    EXPECT_EQ(matcher.longest("aa")->id, 1);
    EXPECT_EQ(matcher.longest("ba"), nullptr);
    EXPECT_EQ(matcher.longest(""), nullptr);
}

}  // namespace
}  // namespace trireme::test
