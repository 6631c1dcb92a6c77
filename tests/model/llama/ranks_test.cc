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

struct Output {
    std::vector<int32_t> tokens;
    std::vector<float> logits;  // of the prompt
};

Output greedy(const std::string& model, int ranks, int threads) {
    Output run;
    run_ranks(ranks, [&](Comm& comm) {
        Engine engine(data_path(model), kExact, comm, threads);
        std::vector<int32_t> prompt(33);
        for (size_t i = 0; i < prompt.size(); ++i) {
            prompt[i] = static_cast<int32_t>((i * 37 + 11) % static_cast<size_t>(engine->config().vocab));
        }
        Output mine;
        mine.logits = engine.prefill_logits(prompt);
        std::vector<float> last(mine.logits.end() - engine->config().vocab, mine.logits.end());
        for (int i = 0; i < 24; ++i) {
            const auto best = std::max_element(last.begin(), last.end()) - last.begin();
            mine.tokens.push_back(static_cast<int32_t>(best));
            last = engine.step(mine.tokens.back());
        }
        if (comm.rank() == 0) run = mine;
    });
    return run;
}

// A sum of k products in another order is off by at most sqrt(k) eps in rms of its terms' norm; two all-reduces a layer
// on a path of n layers; 4 sigma. Stated relative to the largest logit, whose norm bounds the residual's here.
double bound(int64_t layers) {
    return 4 * eps_of(DType::kF32) * std::sqrt(512.0 * 2 * static_cast<double>(layers));
}

class Ranks : public testing::TestWithParam<std::string> {};

TEST_P(Ranks, GiveTheSameGreedyTokensAndNearlyTheSameLogits) {
    const Output one = greedy(GetParam(), 1, 1);
    double largest = 0;
    for (const float x : one.logits) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    for (const int ranks : {2, 3, 4}) {
        const Output many = greedy(GetParam(), ranks, 1);

        EXPECT_EQ(many.tokens, one.tokens) << ranks << " ranks";
        EXPECT_TRUE(near(std::span<const float>(many.logits), std::span<const float>(one.logits), bound(6) * largest))
            << ranks << " ranks";
    }
}

TEST_P(Ranks, GiveTheSameBitsForAnyNumberOfThreads) {
    for (const int ranks : {1, 2}) {
        const Output one = greedy(GetParam(), ranks, 1);
        for (const int threads : {2, 3}) {
            const Output more = greedy(GetParam(), ranks, threads);
            EXPECT_EQ(more.tokens, one.tokens);
            EXPECT_TRUE(same_bits(std::span<const float>(more.logits), std::span<const float>(one.logits)))
                << ranks << " ranks, " << threads << " threads";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Ranks, testing::Values("models/kjv-target", "tiny/heads9-kv3", "tiny/gqa4-bf16"),
                         [](const auto& param) {
                             std::string name = param.param;
                             for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                             return name;
                         });

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
