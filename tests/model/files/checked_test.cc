#include "model/files/checked.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(Checked, ComputesWithinRange) {
    static_assert((Checked(3) * 4 + 5 - 6).value() == 11);
    EXPECT_TRUE((Checked(kMax) + 0).equals(kMax));
    EXPECT_TRUE((Checked(uint64_t{1} << 32) * ((uint64_t{1} << 32) - 1)).ok());
    EXPECT_EQ(Checked(33).round_up(32).value(), 64u);
    EXPECT_EQ(Checked(64).round_up(32).value(), 64u);
}

TEST(Checked, RemembersAnOverflow) {
    EXPECT_FALSE((Checked(kMax) + 1).ok());
    EXPECT_FALSE((Checked(0) - 1).ok());
    EXPECT_FALSE((Checked(uint64_t{1} << 32) * (uint64_t{1} << 32)).ok());
    EXPECT_FALSE(Checked(kMax).round_up(32).ok());

    // An overflow remains: later operations do not make the value valid again, and no limit accepts it.
    const Checked bad = (Checked(kMax) + 1) * 0;
    EXPECT_FALSE(bad.ok());
    EXPECT_FALSE(bad.at_most(kMax));
    EXPECT_FALSE(bad.equals(0));
    EXPECT_FALSE((Checked(1) + bad).ok());
    EXPECT_FALSE((Checked(1) - bad).ok());
}

}  // namespace
}  // namespace trireme::test
