#include "model/tokenizer/regex.h"

#include <gtest/gtest.h>

#include "model/tokenizer/oniguruma.h"
#include "model/tokenizer/unicode_shape.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

using Parts = std::vector<std::string>;

Parts matches(std::string_view pattern, std::string_view text) {
    Parts parts;
    for (const Span span : Regex(pattern, "x").find_all(unicode_shape(text)))
        parts.emplace_back(text.substr(span.begin, span.end - span.begin));
    return parts;
}

TEST(Regex, FindsWhatDoesNotOverlap) {
    EXPECT_EQ(matches("aa", "aaaaa"), (Parts{"aa", "aa"}));
    EXPECT_EQ(matches(R"(\s+(?!\S)|\s+)", "a   b  "), (Parts{"  ", " ", "  "}));
    EXPECT_EQ(matches("x", ""), Parts{});
}

TEST(Regex, TakesAnEmptyMatchOnlyBetweenOthers) {
    EXPECT_EQ(matches("x*", "axxb"), (Parts{"", "xx", ""}));
    EXPECT_EQ(matches("x*", "\u00E9"), (Parts{"", ""}));
}

// Matches that were observed with the reference (Oniguruma by way of HF tokenizers 0.23.3).
TEST(Regex, MatchesWhatOnigurumaMatches) {
    EXPECT_EQ(matches(R"(\p{N}{1,3}+)", "1234567"), (Parts{"1234567"}));  // repeated, not possessive
    EXPECT_EQ(matches(R"(\p{N}{1,3})", "1234567"), (Parts{"123", "456", "7"}));
    EXPECT_EQ(matches(R"(a++b|a)", "aab"), (Parts{"aab"}));
    EXPECT_EQ(matches(R"(a++a|a)", "aa"), (Parts{"a", "a"}));  // possessive
    EXPECT_EQ(matches(R"(a{,2}b)", "aaab"), (Parts{"aab"}));
    EXPECT_EQ(matches(R"(a$)", "a\na"), (Parts{"a", "a"}));  // by line
    EXPECT_EQ(matches(R"(^a)", "a\na"), (Parts{"a", "a"}));
    EXPECT_EQ(matches(R"(.)", "a\nb\r"), (Parts{"a", "b", "\r"}));
    EXPECT_EQ(matches(R"(\w+)", "a\u0301b_\u203F\u2160\u00B2c"), (Parts{"a\u0301b_\u203F\u2160\u00B2c"}));
    EXPECT_EQ(matches(R"([\w]+)", "a\u00B2"), (Parts{"a"}));  // Latin-1 numbers only outside of a class
    EXPECT_EQ(matches(R"(\s)", "\u180E\u0085\u001C\u200B"), (Parts{"\u0085"}));
    EXPECT_EQ(matches(R"((?i:'s|k))", "a'\u017Fb\u212A'S"), (Parts{"'\u017F", "\u212A", "'S"}));
    EXPECT_EQ(matches(R"(\p{Han}+)", "\u3001\u4E00\u3007"), (Parts{"\u4E00\u3007"}));  // script, not extensions
    EXPECT_EQ(matches(R"([^\r\n\p{L}\p{N}]?\p{L}+)", " ab\nc1d"), (Parts{" ab", "c", "d"}));
    EXPECT_EQ(matches(R"(\x41\u00e9\x{1F600}\.)", "A\u00E9\U0001F600."), (Parts{"A\u00E9\U0001F600."}));
    EXPECT_EQ(matches(R"(a{x})", "a{x}"), (Parts{"a{x}"}));
    EXPECT_EQ(matches(R"((?<=a)b|(?<!a)c)", "abcac"), (Parts{"b", "c"}));
    EXPECT_EQ(matches(R"([!-/:-@]+)", "a!:b"), (Parts{"!:"}));
    EXPECT_EQ(matches(R"((?:a|(?:b)){2}{2})", "abab"), (Parts{"abab"}));
}

TEST(Regex, KnowsCharactersNewerThanItsLibrary) {
    EXPECT_EQ(matches(R"(\p{L}+)", "a\U00031350b1\u1C89\U00016D43"), (Parts{"a\U00031350b", "\u1C89\U00016D43"}));
    EXPECT_EQ(matches(R"(\p{Nd}+)", "\U00010D40\U00011F50"), (Parts{"\U00010D40\U00011F50"}));
    EXPECT_EQ(matches(R"(\p{Han})", "\U00031350\U00010D4A"), (Parts{"\U00031350"}));
    EXPECT_EQ(matches(R"(\p{Lu})", "\u1C89\u1C8A"), (Parts{"\u1C89"}));
}

TEST(Regex, BytesThatAreNotUtf8AreNeitherLetterNorSpace) {
    EXPECT_EQ(matches(R"(\p{L}+|\s+|\p{N}+)", "a\xFF\xC3 \xE4\xBD"), (Parts{"a", " "}));
    EXPECT_EQ(matches(R"([^\s\p{L}\p{N}]+)", "a\xFF\xC3 \xE4\xBD"), (Parts{"\xFF\xC3", "\xE4\xBD"}));
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
    for (const char* pattern :
         {R"(\h)",          R"(\b)",       R"(\A)",      R"(\k<a>)", R"((a)\1)",    R"([a&&b])", R"([a[b]])",
          R"([[:alpha:]])", R"(\p{^L})",   R"(\p{Foo})", R"(\pL)",   R"((?i)a)",    R"((?#x))",  R"((*FAIL))",
          R"((?<n>a))",     R"(a{2}?)",    R"(*a)",      R"(a|*)",   "a)",          "[a",        "[]a]",
          R"(\x{110000})",  R"(\x{D800})", R"(\xE9)",    R"(\)",     R"(a{99999})", R"([\W])",   R"(\Q)"}) {
        expect_error([&] { Regex(pattern, "x.json: Regex"); }, Exit::kData, {"x.json: Regex", "not supported"});
    }
    for (const char* pattern : {"\\p{L\n}", "\\\n", "(?\n)"})
        expect_error([&] { Regex(pattern, "x.json"); }, Exit::kData, {"x.json", "\\x0a", "not supported"});
    for (const char* pattern : {"(a", "a(", "(?:a(b)"})
        expect_error([&] { Regex(pattern, "x.json"); }, Exit::kData, {"x.json", "lacks ')'"});
    expect_error([] { Regex("[z-a]", "x.json"); }, Exit::kData, {"wrong at byte"});
    expect_error([] { Regex("(?<=a+)b", "x.json"); }, Exit::kData, {"wrong at byte"});
    expect_error([] { Regex(std::string(70000, 'a'), "x.json"); }, Exit::kData, {"70000 bytes"});
}

TEST(Regex, GivesUpOnCatastrophe) {
    expect_error([] { matches("(?:(?:a|a)*)*[bc]", std::string(64, 'a')); }, Exit::kData, {"64 bytes of text"});
}

TEST(Regex, PassesOverALongRunOfSpace) {
    const std::string space(1 << 20, ' ');
    EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", space + "a").size(), 2u);
}

TEST(WordCharacter, IsALetterMarkDigitOrConnector) {
    for (const char* yes : {"a", "\u00E9", "5", "_", "\u0301", "\u2160", "\u24B6", "\u200D", "\u4E00"})
        EXPECT_TRUE(is_word_character(yes)) << yes;
    for (const char* no : {"", " ", "-", "\u00B2", "\u2028", "\u00BD"}) EXPECT_FALSE(is_word_character(no)) << no;
}

TEST(UnicodeShape, KeepsLengthsAndOldCharacters) {
    const std::string text = "a\u00E9\u4E00\U0001F600";
    EXPECT_EQ(unicode_shape(text), text);
    EXPECT_EQ(unicode_shape("\xFF\u1C89\xC3").size(), 5u);
    EXPECT_EQ(unicode_shape("\xFF"), "\x01");
}

}  // namespace
}  // namespace trireme::test
