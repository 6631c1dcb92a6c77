#include "dist/agreement.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(Agreement, IsSilentWhenAllAgree) {
    EXPECT_EQ(first_difference({{{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "2"}}}), "");
    EXPECT_EQ(first_difference({{}, {}}), "");
}

TEST(Agreement, NamesTheRankThatDiffersFromMost) {
    EXPECT_EQ(first_difference({{{"context", "8192"}}, {{"context", "32768"}}, {{"context", "32768"}}}),
              "rank 0 differs: context=8192 (others 32768)");
    EXPECT_EQ(first_difference({{{"context", "1"}}, {{"context", "1"}}, {{"context", "1"}}, {{"context", "2"}}}),
              "rank 3 differs: context=2 (others 1)");
}

TEST(Agreement, TakesRankZeroForRightAmongTwo) {
    EXPECT_EQ(first_difference({{{"k", "f16"}}, {{"k", "f32"}}}), "rank 1 differs: k=f32 (others f16)");
}

TEST(Agreement, ListsEveryKeyOfThatRank) {
    EXPECT_EQ(first_difference({{{"a", "1"}, {"b", "1"}, {"c", "1"}}, {{"a", "2"}, {"b", "1"}, {"c", "3"}}}),
              "rank 1 differs: a=2 (others 1), c=3 (others 1)");
}

TEST(Agreement, NamesKeysThatOnlySomeRanksHave) {
    EXPECT_EQ(first_difference({{{"a", "1"}}, {{"a", "1"}}, {}}), "rank 2 differs: a is not set (others 1)");
    EXPECT_EQ(first_difference({{}, {{"a", "1"}}, {}}), "rank 1 differs: a=1 (others do not set it)");
}

TEST(Agreement, DistinguishesAnEmptyValueFromNone) {
    EXPECT_EQ(first_difference({{{"a", ""}}, {{"a", ""}}, {}}), "rank 2 differs: a is not set (others )");
}

}  // namespace
}  // namespace trireme::test
