#include "model/tokenizer/utf8.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
    for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
        if (code_point >= 0xD800 && code_point < 0xE000) continue;
        std::string text;
        append_utf8(text, code_point);
        ASSERT_EQ(utf8_length(text), text.size()) << code_point;
        ASSERT_EQ(utf8_code_point(text), code_point);
        for (size_t cut = 1; cut < text.size(); ++cut) {
            ASSERT_EQ(utf8_length(std::string_view(text).substr(0, cut)), 0u) << code_point;
            ASSERT_EQ(utf8_unfinished_tail(std::string("a").append(text, 0, cut)), cut) << code_point;
        }
        ASSERT_EQ(utf8_unfinished_tail(text), 0u) << code_point;
    }
}

TEST(Utf8, RefusesWhatTheStandardDoes) {
    constexpr std::array<std::string_view, 12> kBad = {
        "\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",     "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF",         "\xE4\xBD\x41"};
    for (const std::string_view bad : kBad) {
        EXPECT_EQ(utf8_length(bad), 0u);
        EXPECT_FALSE(is_utf8(bad));
        EXPECT_EQ(utf8_unfinished_tail(bad), 0u);
    }
    EXPECT_EQ(utf8_length(""), 0u);
    EXPECT_TRUE(is_utf8(""));
}

TEST(Utf8, RunsAndBytesBetweenThemMakeTheText) {
    std::vector<std::string> parts;
    for_each_utf8_run(
        "ab\xC3\xA9\xFF\xE4\xBDz", [&](std::string_view run) { parts.emplace_back(run); },
        [&](char byte) { parts.emplace_back(1, byte); });
    EXPECT_EQ(parts, (std::vector<std::string>{"ab\xC3\xA9", "\xFF", "\xE4", "\xBD", "z"}));
}

TEST(Utf8, WhiteSpaceIsTheUnicodeProperty) {
    for (const uint32_t space :
         {0x09u, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2000u, 0x200Au, 0x2028u, 0x202Fu, 0x3000u})
        EXPECT_TRUE(is_white_space(space)) << space;
    for (const uint32_t other : {0x08u, 0x0Eu, 0x1Cu, 0x180Eu, 0x200Bu, 0xFEFFu})
        EXPECT_FALSE(is_white_space(other)) << other;
}

}  // namespace
}  // namespace trireme::test
