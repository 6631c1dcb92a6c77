// The whole engine over the GPU's kernels: what they say on the host is what the CPU's say.

#include "tests/support/engine.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/simt/kernels.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

const bool kRegistered = (simt::register_backend(), true);

class SimtEngine : public testing::TestWithParam<std::string> {};

TEST_P(SimtEngine, GivesTheCpusGreedyTokensOnOneAndTwoRanks) {
    ASSERT_TRUE(kRegistered);
    const Greedy cpu = greedy(GetParam(), 1, 1);
    double largest = 0;
    for (const float x : cpu.logits) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    for (const int ranks : {1, 2}) {
        const Greedy simt = greedy(GetParam(), ranks, 1, "simt");

        EXPECT_EQ(simt.tokens, cpu.tokens) << ranks << " ranks";
        // Sums in another order: as between ranks (tests/model/llama/ranks_test.cc).
        const double bound = 4 * eps_of(DType::kF32) * std::sqrt(512.0 * 2 * 6) * largest;
        EXPECT_TRUE(near(std::span<const float>(simt.logits), std::span<const float>(cpu.logits), bound));
    }
}

TEST_P(SimtEngine, StaysCloseIn16Bits) {
    const LlamaOptions half{.weights = DType::kF16, .k_type = DType::kF16, .v_type = DType::kF16};
    const Greedy cpu = greedy(GetParam(), 1, 1, "cpu", half), simt = greedy(GetParam(), 1, 1, "simt", half);
    double largest = 0;
    for (const float x : cpu.logits) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    // Inputs of products rounded to 16 bits: half a step each, in a random walk over two products a layer of 6, 4
    // sigma.
    const double bound = 4 * eps_of(DType::kF16) / 2 * std::sqrt(2.0 * 2 * 6) * largest;
    EXPECT_TRUE(near(std::span<const float>(simt.logits), std::span<const float>(cpu.logits), bound));
}

INSTANTIATE_TEST_SUITE_P(Models, SimtEngine, testing::Values("models/kjv-draft", "tiny/heads9-kv3", "tiny/gqa4-bf16"),
                         [](const auto& param) {
                             std::string name = param.param;
                             for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                             return name;
                         });

}  // namespace
}  // namespace trireme::test
