// Sharding changes the order of sums, nothing else.

#include "tests/support/ranks.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

// A sum of k products in another order is off by at most sqrt(k) eps in rms of its terms' norm; two all-reduces a layer
// on a path of n layers; 4 sigma. Stated relative to the largest logit, whose norm bounds the residual's here.
double bound(int64_t layers) {
    return 4 * eps_of(DType::kF32) * std::sqrt(512.0 * 2 * static_cast<double>(layers));
}

class Ranks : public testing::TestWithParam<std::string> {};

TEST_P(Ranks, GiveTheSameGreedyTokensAndNearlyTheSameLogits) {
    const Greedy one = greedy(GetParam(), 1, 1);
    for (const int ranks : {2, 3, 4}) {
        const Greedy many = greedy(GetParam(), ranks, 1);

        EXPECT_EQ(many.tokens, one.tokens) << ranks << " ranks";
        EXPECT_TRUE(near(std::span<const float>(many.logits), std::span<const float>(one.logits),
                         bound(6) * largest(one.logits)))
            << ranks << " ranks";
    }
}

TEST_P(Ranks, GiveTheSameBitsForAnyNumberOfThreads) {
    for (const int ranks : {1, 2}) {
        const Greedy one = greedy(GetParam(), ranks, 1);
        for (const int threads : {2, 3}) {
            const Greedy more = greedy(GetParam(), ranks, threads);
            EXPECT_EQ(more.tokens, one.tokens);
            EXPECT_TRUE(same_bits(std::span<const float>(more.logits), std::span<const float>(one.logits)))
                << ranks << " ranks, " << threads << " threads";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Ranks,
                         testing::Values("models/kjv-target", "tiny/heads9-kv3", "tiny/gqa4-bf16", "tiny/qwen2-tied",
                                         "tiny/qwen2-window", "tiny/qwen3-norms", "tiny/llama-bias",
                                         "tiny/mistral-window", "tiny/phi3-long", "gguf/phi3.gguf"),
                         [](const auto& param) { return case_name(param.param); });

// Ranks share blocks of 32 and of 256 columns, and heads and MLP columns end inside them.
TEST(Ranks, ReadWeightsInBlocks) {
    EngineOptions in_blocks = kExact;
    in_blocks.blocks = true;
    for (const char* model : {"gguf/q4_k_m.gguf", "gguf/q3_k.gguf", "gguf/q4_1.gguf", "gguf/q5_0.gguf",
                              "gguf/iq4_xs.gguf", "gguf/phi3_q4_0.gguf", "gguf/qwen2_q8_0.gguf", "gguf/q8_0_mixed.gguf",
                              "packed/gptq", "packed/awq", "packed/compressed_zeros", "packed/fp8_block"}) {
        const Greedy one = greedy(model, 1, 1, "cpu", in_blocks);
        EXPECT_EQ(one.tokens, greedy(model, 1, 1).tokens) << model << ": as widened weights";
        for (const int ranks : {2, 3, 4}) {
            const Greedy many = greedy(model, ranks, 2, "cpu", in_blocks);
            EXPECT_EQ(many.tokens, one.tokens) << model << " " << ranks << " ranks";
            EXPECT_TRUE(near(std::span<const float>(many.logits), std::span<const float>(one.logits),
                             bound(6) * largest(one.logits)))
                << model << " " << ranks << " ranks";
        }
    }
}

// Activations are rounded by blocks of 32, and other ranks divide these in other places.
TEST(Ranks, ReadInterleavedWeights) {
    if (!multiplies("cpu", ActivationType::kQ16)) GTEST_SKIP() << "no dot products of bytes";
    EngineOptions exact = kExact, rounded = kExact;
    exact.blocks = rounded.blocks = true;
    rounded.activations = ActivationType::kQ16;
    for (const char* model : {"gguf/q4_k_m.gguf", "gguf/q3_k.gguf", "gguf/q5_0.gguf", "gguf/phi3_q4_0.gguf",
                              "gguf/qwen2_q8_0.gguf", "gguf/q8_0_mixed.gguf", "packed/awq"}) {
        const Greedy want = greedy(model, 1, 1, "cpu", exact);
        const Greedy one = greedy(model, 1, 1, "cpu", rounded);
        for (const int threads : {2, 3})
            EXPECT_EQ(greedy(model, 1, threads, "cpu", rounded).tokens, one.tokens) << model;
        for (const int ranks : {1, 2, 3, 4}) {
            const Greedy many = greedy(model, ranks, 2, "cpu", rounded);
            // The prompt's products round activations and weights to bf16.
            EXPECT_TRUE(near(std::span<const float>(many.logits), std::span<const float>(want.logits),
                             0.05 * largest(want.logits)))
                << model << " " << ranks << " ranks";
        }
    }
}

TEST(Ranks, NineShareNineHeads) {
    EXPECT_EQ(greedy("tiny/heads9-kv3", 9, 1).tokens, greedy("tiny/heads9-kv3", 1, 1).tokens);
}

TEST(Ranks, MoreThanHeadsAreRefused) {
    try {
        greedy("models/kjv-target", 5, 1);
        FAIL() << "5 ranks ran a model of 4 heads";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kConfig);
    }
}

}  // namespace
}  // namespace trireme::test
