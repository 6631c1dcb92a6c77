#include "model/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using Parts = std::vector<std::string>;

Parts words_of(const std::vector<const PreTokenizer*>& steps, const std::string& text, bool at_start = true) {
    Words words(text, at_start);
    for (const PreTokenizer* step : steps) step->apply(words);
    Parts parts;
    for (const Span span : words.spans()) parts.emplace_back(words.word(span));
    return parts;
}

Parts cut(const std::string& pattern, SplitBehavior behavior, const std::string& text, bool invert = false) {
    return words_of({split_at(Regex(pattern, "x"), behavior, invert).get()}, text);
}

// The five behaviours on one text, as the reference documents and implements them.
TEST(Split, HasFiveBehaviours) {
    const std::string text = "the-final--countdown";
    EXPECT_EQ(cut("-", SplitBehavior::kIsolated, text), (Parts{"the", "-", "final", "-", "-", "countdown"}));
    EXPECT_EQ(cut("-", SplitBehavior::kRemoved, text), (Parts{"the", "final", "countdown"}));
    EXPECT_EQ(cut("-", SplitBehavior::kMergedWithPrevious, text), (Parts{"the-", "final-", "-", "countdown"}));
    EXPECT_EQ(cut("-", SplitBehavior::kMergedWithNext, text), (Parts{"the", "-final", "-", "-countdown"}));
    EXPECT_EQ(cut("-", SplitBehavior::kContiguous, text), (Parts{"the", "-", "final", "--", "countdown"}));
}

TEST(Split, InvertsMatches) {
    EXPECT_EQ(cut("[a-z]+", SplitBehavior::kRemoved, "ab 12 cd", true), (Parts{"ab", "cd"}));
    EXPECT_EQ(cut("[a-z]+", SplitBehavior::kIsolated, "ab12cd", true), (Parts{"ab", "12", "cd"}));
}

TEST(Split, DropsEmptyWords) {
    EXPECT_EQ(cut("x*", SplitBehavior::kIsolated, "ab"), (Parts{"a", "b"}));
    EXPECT_EQ(cut("-", SplitBehavior::kRemoved, "--"), Parts{});
    EXPECT_EQ(cut("-", SplitBehavior::kIsolated, ""), Parts{});
}

TEST(Split, SeesOneWordAtATime) {
    const auto spaces = split_at(Regex(" ", "x"), SplitBehavior::kRemoved, false);
    const auto ends = split_at(Regex("^.", "x"), SplitBehavior::kIsolated, false);
    EXPECT_EQ(words_of({spaces.get(), ends.get()}, "ab cd"), (Parts{"a", "b", "c", "d"}));
}

TEST(Split, CutsGpt2Words) {
    EXPECT_EQ(cut(std::string(kGpt2Pattern), SplitBehavior::kIsolated, "Hello  world's 123!\n\nx"),
              (Parts{"Hello", " ", " world", "'s", " 123", "!", "\n", "\n", "x"}));
}

TEST(PrefixSpace, StandsBeforeEveryWordWithoutOne) {
    const auto prefix = add_prefix_space();
    const auto dashes = split_at(Regex("-", "x"), SplitBehavior::kRemoved, false);
    EXPECT_EQ(words_of({prefix.get()}, "a"), Parts{" a"});
    EXPECT_EQ(words_of({prefix.get()}, " a"), Parts{" a"});
    EXPECT_EQ(words_of({prefix.get()}, "\na"), Parts{" \na"});
    EXPECT_EQ(words_of({dashes.get(), prefix.get()}, "a- b"), (Parts{" a", " b"}));
}

TEST(Metaspace, PrefixesNeverFirstOrAlways) {
    const auto never = metaspace("_", MetaspacePrefix::kNever, false);
    const auto first = metaspace("_", MetaspacePrefix::kFirst, false);
    const auto always = metaspace("_", MetaspacePrefix::kAlways, false);

    EXPECT_EQ(words_of({never.get()}, "a b"), Parts{"a_b"});
    EXPECT_EQ(words_of({first.get()}, "a b"), Parts{"_a_b"});
    EXPECT_EQ(words_of({first.get()}, "a b", /*at_start=*/false), Parts{"a_b"});
    EXPECT_EQ(words_of({always.get()}, "a b", /*at_start=*/false), Parts{"_a_b"});
    EXPECT_EQ(words_of({always.get()}, " a"), Parts{"_a"});
    EXPECT_EQ(words_of({always.get()}, "_a"), Parts{"_a"});
}

TEST(Metaspace, CutsBeforeEachMark) {
    const auto split = metaspace("\u2581", MetaspacePrefix::kAlways, true);
    EXPECT_EQ(words_of({split.get()}, "a b  c"), (Parts{"\u2581a", "\u2581b", "\u2581",
                                                        "\u2581"
                                                        "c"}));
}

TEST(Metaspace, FirstMeansTheFirstWordOnly) {
    const auto dashes = split_at(Regex("-", "x"), SplitBehavior::kIsolated, false);
    const auto first = metaspace("_", MetaspacePrefix::kFirst, false);
    EXPECT_EQ(words_of({dashes.get(), first.get()}, "a-b"), (Parts{"_a", "-", "b"}));
}

}  // namespace
}  // namespace trireme::test
