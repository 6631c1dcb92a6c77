#include "runtime/for_all.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(ForAll, CallsEachIndexOnce) {
    for (const size_t n : {0, 1, 7, 1000}) {
        for (const size_t most : {1, 2, 64}) {
            std::vector<std::atomic<int>> calls(n);
            for_all(n, most, [&](size_t i) { ++calls[i]; });
            for (const std::atomic<int>& c : calls) EXPECT_EQ(c, 1);
        }
    }
}

// Later indices may not have been called; earlier ones all have.
TEST(ForAll, ThrowsTheErrorWithTheLowestIndex) {
    for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> calls(200);
        try {
            for_all(200, 4, [&](size_t i) {
                ++calls[i];
                if (i % 50 == 37) throw std::runtime_error(std::to_string(i));
            });
            FAIL();
        } catch (const std::runtime_error& e) {
            EXPECT_STREQ(e.what(), "37");
        }
        for (size_t i = 0; i < 37; ++i) EXPECT_EQ(calls[i], 1) << i;
    }
}

}  // namespace
}  // namespace trireme::test
