#include "decode/stop_text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(StopText, PassesTextThroughWithoutStops) {
    StopText t({});
    EXPECT_EQ(t.push("abc"), "abc");
    EXPECT_EQ(t.flush(), "");
}

TEST(StopText, HoldsBackWhatMayBecomeAStop) {
    StopText t({"END"});
    EXPECT_EQ(t.push("so E"), "so ");
    EXPECT_EQ(t.push("N"), "");
    EXPECT_EQ(t.push("ough"), "ENough");
    EXPECT_EQ(t.push("E"), "");
    EXPECT_EQ(t.flush(), "E");
    EXPECT_FALSE(t.stopped());
}

TEST(StopText, CutsAtTheFirstOfSeveralStops) {
    StopText t({"world", "lo"});
    EXPECT_EQ(t.push("hel"), "he");
    EXPECT_EQ(t.push("lo world"), "l");
    EXPECT_TRUE(t.stopped());
    EXPECT_EQ(t.push("more"), "");
    EXPECT_EQ(t.flush(), "");
}

// However the text is split, the shown text is what precedes the first stop string in the whole text.
TEST(StopText, DoesNotDependOnHowTheTextArrives) {
    const std::string text = "aabababcababd";
    const std::vector<std::string> stops = {"ababc", "abd"};
    for (size_t i = 0; i < text.size(); ++i) {
        for (size_t j = i; j <= text.size(); ++j) {
            StopText t(stops);
            std::string shown = t.push(text.substr(0, i));
            shown += t.push(text.substr(i, j - i));
            shown += t.push(text.substr(j));
            shown += t.flush();
            ASSERT_EQ(shown, text.substr(0, text.find("ababc"))) << i << " " << j;
        }
    }
}

}  // namespace
}  // namespace trireme::test
