#include "model/tokenizer/cut_points.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

std::vector<std::string> parts(const CutPoints& cuts, std::string_view text, size_t least, uint32_t space = ' ') {
    std::vector<std::string> found;
    while (!text.empty()) {
        const size_t size = cuts.part(text, least, space);
        found.emplace_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return found;
}

using Parts = std::vector<std::string>;

TEST(CutPoints, LieBetweenKnownCharactersThatNoTokenHolds) {
    CutPoints cuts;
    for (const char* token : {"a", "b", "\u2581", "ab",
                              "\u2581"
                              "a"})
        cuts.add_token(token);

    EXPECT_EQ(parts(cuts, "abab", 1), (Parts{"ab", "ab"}));
    EXPECT_EQ(parts(cuts, "aaa", 1), (Parts{"a", "a", "a"}));
    EXPECT_EQ(parts(cuts,
                    "ab\u2581"
                    "ab",
                    1),
              (Parts{"ab",
                     "\u2581"
                     "ab"}));
    EXPECT_EQ(parts(cuts, "bbbb", 3), (Parts{"bbb", "b"}));
    EXPECT_EQ(parts(cuts, "ab ab", 1, 0x2581), (Parts{"ab", " ab"}));
    EXPECT_EQ(parts(cuts, "ab ab", 1), (Parts{"ab ab"}));  // a plain space is not known here
}

TEST(CutPoints, AvoidUnknownCharactersAndBytes) {
    CutPoints cuts;
    for (const char* token : {"a", "b"}) cuts.add_token(token);

    EXPECT_EQ(parts(cuts, "axbxa", 1), Parts{"axbxa"});
    EXPECT_EQ(parts(cuts,
                    "a\xFF"
                    "b\xC3"
                    "a",
                    1),
              Parts{"a\xFF"
                    "b\xC3"
                    "a"});
    EXPECT_EQ(parts(cuts, "axab", 1), (Parts{"axa", "b"}));
}

TEST(CutPoints, WithoutTokensThereAreNone) {
    EXPECT_EQ(parts(CutPoints(), std::string(1000, 'a'), 1), Parts{std::string(1000, 'a')});
}

}  // namespace
}  // namespace trireme::test
