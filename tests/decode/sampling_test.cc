#include "decode/sampling.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

TEST(SamplingParams, RefuseValuesOutOfRange) {
    const auto refused = [](const SamplingParams& p) {
        try {
            validate(p);
            return false;
        } catch (const Error& e) {
            return e.code() == Exit::kConfig;
        }
    };
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
    for (const double t : {-1.0, -1e-9, nan, inf}) EXPECT_TRUE(refused({.temperature = t})) << t;
    EXPECT_TRUE(refused({.top_k = -1}));
    for (const double p : {0.0, -0.1, 1.0000001, nan}) EXPECT_TRUE(refused({.top_p = p})) << p;
    for (const double p : {-0.1, 1.1, nan}) EXPECT_TRUE(refused({.min_p = p})) << p;
    EXPECT_FALSE(refused({.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 1}));
}

}  // namespace
}  // namespace trireme::test
