#include "model/tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

TEST(Normalizer, ComposesAndDecomposes) {
    EXPECT_EQ(unicode_form(true, false)("e\u0301"), "\u00E9");
    EXPECT_EQ(unicode_form(false, false)("\u00E9"), "e\u0301");
    EXPECT_EQ(unicode_form(true, false)("\uFB01\u00BD"), "\uFB01\u00BD");
    EXPECT_EQ(unicode_form(true, true)("\uFB01\u00BD"), "fi1\u20442");
    EXPECT_EQ(unicode_form(false, true)("\uAC00"), "\u1100\u1161");
    EXPECT_EQ(unicode_form(true, false)(std::string("a\0b", 3)), std::string("a\0b", 3));
}

TEST(Normalizer, LeavesBytesThatAreNotUtf8) {
    EXPECT_EQ(unicode_form(true, false)("\xFF"
                                        "e\u0301\xE4\xBD"),
              "\xFF\u00E9\xE4\xBD");
    EXPECT_EQ(replace_text(" ", "_")("\xFF \xC3 "), "\xFF_\xC3_");
    EXPECT_EQ(replace_matches(R"(\s+)", "_", "x")("\xFF  \xC3"), "\xFF_\xC3");
    EXPECT_EQ(strip(true, true)(" \xFF "), "\xFF");
}

TEST(Normalizer, PrependsToSomething) {
    EXPECT_EQ(prepend("_")("a"), "_a");
    EXPECT_EQ(prepend("_")(""), "");
}

TEST(Normalizer, ReplacesLeftToRight) {
    EXPECT_EQ(replace_text("aa", "b")("aaaaa"), "bba");
    EXPECT_EQ(replace_text("a", "")("banana"), "bnn");
    EXPECT_EQ(replace_matches("[aeiou]+", "*", "x")("queue up"), "q* *p");
}

TEST(Normalizer, StripsUnicodeSpace) {
    EXPECT_EQ(strip(true, false)("\u3000 a "), "a ");
    EXPECT_EQ(strip(false, true)(" a\u00A0\u3000\n"), " a");
    EXPECT_EQ(strip(true, true)(" \u2003 "), "");
}

TEST(Normalizer, StepsFollowEachOther) {
    EXPECT_EQ(normalized({prepend(" "), replace_text(" ", "\u2581")}, "a b"), "\u2581a\u2581b");
    EXPECT_EQ(normalized({}, "a"), "a");
}

TEST(Normalizer, RefusesATextThatGrowsWithoutEnd) {
    const std::vector<Normalizer> twice(64, replace_text("a", "aa"));
    expect_error([&] { normalized(twice, "a"); }, Exit::kData, {"2048 bytes or more of 1", "at most 1056"});
    expect_error([&] { normalized(twice, std::string(1000, 'a')); }, Exit::kData, {"of 1000", "at most 33024"});
    const std::string much(5000, 'b');
    for (const Normalizer& step : {replace_text("a", much), replace_matches("a", much, "x"), prepend(much)})
        expect_error([&] { normalized({step}, "aaaa"); }, Exit::kData, {"of 4", "at most 1152"});
    EXPECT_EQ(normalized({unicode_form(false, true)}, std::string(3000, ' ').append("\uFDFA")).size(), 3033u);
}

}  // namespace
}  // namespace trireme::test
