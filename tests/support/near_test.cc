#include "tests/support/near.h"

#include <limits>
#include <string>
#include <vector>

namespace trireme::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool is_near(const std::vector<float>& got, const std::vector<double>& want, double tol) {
    return static_cast<bool>(near<float, double>(got, want, tol));
}

TEST(Near, AcceptsWithinTheTolerance) {
    EXPECT_TRUE(is_near({1, 2, -3}, {1.1, 2, -3.1}, 0.11));
    EXPECT_TRUE(is_near({}, {}, 0));
    EXPECT_TRUE(is_near({kInf, -kInf}, {kInf, -kInf}, 0));
}

TEST(Near, RefusesBeyondTheToleranceWhateverTheSign) {
    EXPECT_FALSE(is_near({1}, {1.2}, 0.1));
    EXPECT_FALSE(is_near({-1}, {-2}, 0.1));
    EXPECT_FALSE(is_near({1}, {-1}, 0.1));
}

TEST(Near, RefusesNan) {
    EXPECT_FALSE(is_near({kNan}, {1}, 1e30));
    EXPECT_FALSE(is_near({1}, {kNan}, 1e30));
    EXPECT_FALSE(is_near({kNan}, {kNan}, 1e30));
    EXPECT_FALSE(is_near({1}, {1.5}, kNan));
}

TEST(Near, RefusesInfinityForANumber) {
    EXPECT_FALSE(is_near({kInf}, {1}, 1e30));
    EXPECT_FALSE(is_near({kInf}, {-kInf}, 1e30));
}

TEST(Near, RefusesDifferentSizes) {
    EXPECT_FALSE(is_near({1}, {1, 1}, 1));
}

TEST(Near, NamesTheFirstWrongElement) {
    const std::vector<float> got{1, 5, 9};
    const std::vector<double> want{1, 2, 3};

    const std::string message = near<float, double>(got, want, 0.5).message();

    EXPECT_NE(message.find("2 of 3"), std::string::npos);
    EXPECT_NE(message.find("first at 1: got 5, want 2"), std::string::npos);
}

TEST(SameBits, DistinguishesZeroFromMinusZero) {
    const std::vector<float> plus{0.0f}, minus{-0.0f}, nan{kNan};

    EXPECT_FALSE(same_bits<float>(plus, minus));
    EXPECT_TRUE(same_bits<float>(plus, plus));
    EXPECT_TRUE(same_bits<float>(nan, nan));
}

}  // namespace
}  // namespace trireme::test
