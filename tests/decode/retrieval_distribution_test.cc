// At temperature > 0, chains with a level over retrieved KV or heavy hitters also have the distribution of plain
// decoding. The level sees a small part of the prompt, and selects again in every round.

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "tests/decode/distributions.h"
#include "tests/decode/retrieving.h"

namespace trireme::test {
namespace {

constexpr int64_t kContext = 640;

std::vector<int32_t> long_prompt() {
    std::vector<int32_t> ids;
    uint32_t state = 1;
    for (int i = 0; i < 600; ++i) {
        state = state * 1664525 + 1013904223;
        ids.push_back(static_cast<int32_t>(state >> 24) % static_cast<int32_t>(kVocab));
    }
    return ids;
}

class RetrievalDistribution : public testing::Test {
  protected:
    SelfComm comm;
    EngineOptions exact{.weights = DType::kF32, .k_type = DType::kF32, .v_type = DType::kF32, .context = kContext};
    Engine engine{few_tokens_model(32, kContext), exact, comm};
    Engine draft{few_tokens_model(48, kContext), exact, comm};
    Retrieving levels{engine, exact.level(), {.budget = 8, .chunk = 4, .comes_back = true}};
    const SamplingParams sampling{.temperature = 0.6, .top_k = 0, .top_p = 0.9, .min_p = 0};
    const std::vector<int32_t> prompt = long_prompt();
    const std::map<std::vector<int32_t>, double> distributions = distributions_of(*engine, prompt, sampling);

    void expect_distribution(Speculate& speculate) {
        EXPECT_GT(likelihood_of(distributions, speculate, prompt), kUnlikely);
        EXPECT_GT(speculate.stats().accepted, 0);
        EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
    }
};

TEST_F(RetrievalDistribution, PlainDecodingHasIt) {
    Plain plain(levels.target, sampling, 1);
    EXPECT_GT(likelihood_of(distributions, plain, prompt), kUnlikely);
}

TEST_F(RetrievalDistribution, RetrievalLeavesIt) {
    Drafter drafter("retrieval", engine.device(), levels.middle, sampling, 2, 1, 3);
    Speculate speculate(drafter, levels.target, sampling, 2);
    expect_distribution(speculate);
}

TEST_F(RetrievalDistribution, RetrievalBetweenDraftAndTargetLeavesIt) {
    Drafter drafter("draft", draft.device(), *draft, sampling, 3, 2, 1);
    DraftDistributions held(engine.device(), levels.middle, 3);
    Speculate middle(drafter, levels.middle, sampling, 3,
                     {.verifier = "retrieval", .level = 1, .wanted = 3, .held = &held});
    Speculate speculate(middle, levels.target, sampling, 3);
    expect_distribution(speculate);
    EXPECT_GT(middle.stats().accepted, 0);
    EXPECT_LT(middle.stats().accepted, middle.stats().proposed);
}

TEST_F(RetrievalDistribution, HeavyHittersLeaveIt) {
    Heavy heavy(engine, exact.level(), Heavy::of(12));
    Drafter drafter("h2o", engine.device(), heavy.middle, sampling, 5, 1, 3);
    Speculate speculate(drafter, heavy.target, sampling, 5);
    expect_distribution(speculate);
}

TEST_F(RetrievalDistribution, TreesOfRetrievalLeaveIt) {
    TreeDrafter tree("tree", engine.device(), levels.middle, sampling, 4, {.size = 8, .depth = 3});
    Speculate speculate(tree, levels.target, sampling, 4);
    expect_distribution(speculate);
}

}  // namespace
}  // namespace trireme::test
