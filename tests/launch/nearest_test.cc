#include "launch/flags/nearest.h"

#include <array>

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::array<std::string, 5> kNames = {"--seed", "--temp", "--temperature", "--top-k", "--top-p"};

TEST(Nearest, FindsTheNameThatWasMeant) {
    EXPECT_EQ(nearest("--sed", kNames), "--seed");
    EXPECT_EQ(nearest("--see", kNames), "--seed");
    EXPECT_EQ(nearest("--sede", kNames), "--seed");  // one swap
    EXPECT_EQ(nearest("--temprature", kNames), "--temperature");
    EXPECT_EQ(nearest("--top_k", kNames), "--top-k");
}

TEST(Nearest, TakesTheFirstOfEquals) {
    EXPECT_EQ(nearest("--top-x", kNames), "--top-k");
}

TEST(Nearest, TakesTheNameThatAnotherOneBeginsWith) {
    const std::array<std::string, 3> names = {"--model-draft", "--model", "--mode"};
    EXPECT_EQ(nearest("--model-name", names), "--model");
    EXPECT_EQ(nearest("--model_path", names), "--model");
    EXPECT_EQ(nearest("--model-draft-name", names), "--model-draft");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
    EXPECT_EQ(nearest("--perf", kNames), "");
    EXPECT_EQ(nearest("--speed-up", kNames), "");
    EXPECT_EQ(nearest("", kNames), "");
    EXPECT_EQ(nearest("xyzzy", kNames), "");
    EXPECT_EQ(nearest(std::string(1'000'000, 'x'), kNames), "");
}

}  // namespace
}  // namespace trireme
