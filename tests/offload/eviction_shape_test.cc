// The budgets of each policy, as docs/background/eviction.md documents them.

#include "offload/evicting/eviction_shape.h"

#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "offload/evicting/evicting_memory.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

constexpr EvictionShape kShape = {.budget = 31, .heavy = 12, .sinks = 3, .observe = 7, .pool = 5};

EvictionShape of(KvPolicy policy) {
    EvictionShape s = kShape;
    s.policy = policy;
    return s;
}

TEST(EvictionShape, SaysHowManyAreAlwaysKept) {
    for (const auto& [policy, recent] : {std::pair{KvPolicy::kH2o, 31 - 12},
                                         {KvPolicy::kStreaming, 31 - 3},
                                         {KvPolicy::kTova, 1},
                                         {KvPolicy::kSnapKv, 7},
                                         {KvPolicy::kPyramidKv, 7},
                                         {KvPolicy::kAdaKv, 7},
                                         {KvPolicy::kKeyNorm, 31 - 12},
                                         {KvPolicy::kKeyDiff, 31 - 12},
                                         {KvPolicy::kExpected, 7},
                                         {KvPolicy::kRandom, 1}}) {
        EXPECT_EQ(of(policy).recent(), recent) << name_of(policy);
    }
}

TEST(EvictionShape, SaysWhichQueriesCount) {
    for (const auto& [policy, all, some] : {std::tuple{KvPolicy::kH2o, 100, 5},
                                            {KvPolicy::kStreaming, 0, 0},
                                            {KvPolicy::kTova, 1, 1},
                                            {KvPolicy::kSnapKv, 7, 5},
                                            {KvPolicy::kPyramidKv, 7, 5},
                                            {KvPolicy::kAdaKv, 7, 5},
                                            {KvPolicy::kExpected, 7, 5},
                                            {KvPolicy::kKeyNorm, 0, 0},
                                            {KvPolicy::kRandom, 0, 0}}) {
        EXPECT_EQ(of(policy).counted(100), all) << name_of(policy);
        EXPECT_EQ(of(policy).counted(5), some) << name_of(policy);
    }
}

// One call takes the retained tokens and a conversation turn after them, also if one head has most of its layer's
// slots.
TEST(EvictingMemory, HasRoomForATurnAfterTheFullestHead) {
    const KvShape kv = {.layout = {2, 64, DType::kF16, DType::kF16}, .owner_layers = 4, .context = 100000};
    for (const KvPolicy policy : {KvPolicy::kH2o, KvPolicy::kPyramidKv, KvPolicy::kAdaKv}) {
        EvictionShape s = of(policy);
        s.all_heads = s.key_rows = 8;
        s.prompt = 60;
        s.turns = true;
        EXPECT_EQ(EvictingMemory::entries(kv, s), s.most_of_head(kv.owner_layers) + 60) << name_of(policy);
    }
    EvictionShape shared = of(KvPolicy::kAdaKv);
    shared.all_heads = 8;
    EXPECT_EQ(shared.most_of_head(4), 8 * 31 - 7 * 7);  // each other head keeps its recent tokens, or a fifth of W
}

TEST(EvictionShape, MakesARule) {
    for (const auto& [policy, by] : {std::pair{KvPolicy::kH2o, ScoreBy::kSum},
                                     {KvPolicy::kStreaming, ScoreBy::kNothing},
                                     {KvPolicy::kTova, ScoreBy::kLast},
                                     {KvPolicy::kSnapKv, ScoreBy::kWindow},
                                     {KvPolicy::kPyramidKv, ScoreBy::kWindow},
                                     {KvPolicy::kAdaKv, ScoreBy::kWindow},
                                     {KvPolicy::kKeyNorm, ScoreBy::kKeyNorm},
                                     {KvPolicy::kRandom, ScoreBy::kRandom},
                                     {KvPolicy::kKeyDiff, ScoreBy::kKeyDiff},
                                     {KvPolicy::kExpected, ScoreBy::kWindow}}) {
        EvictionShape s = of(policy);
        s.half_scores = s.per_query = true;
        s.decay = 0.5F;
        s.seed = 9;
        s.first_head = 4;
        const SlotRule rule = s.rule();
        EXPECT_EQ(rule.by, by) << name_of(policy);
        EXPECT_TRUE(rule.half);
        EXPECT_EQ(rule.per_query, policy == KvPolicy::kH2o);  // only sums are divided
        EXPECT_EQ(rule.recent, s.recent());
        EXPECT_EQ(rule.sinks, 3);
        EXPECT_EQ(rule.decay, 0.5F);
        EXPECT_EQ(rule.seed, 9U);
        EXPECT_EQ(rule.first_head, 4);
        EXPECT_EQ(s.observing(), by == ScoreBy::kWindow);
        if (!s.observing()) continue;
        EXPECT_EQ(rule.window, 7);
        EXPECT_EQ(rule.pool, policy == KvPolicy::kExpected ? 1 : 5);
    }
}

// In addition to the window the first layer has 155 slots, and the last one 5, a twentieth of W; their mean is 80.
TEST(EvictionShape, FallsFromLayerToLayer) {
    EvictionShape s = {.policy = KvPolicy::kPyramidKv, .budget = 100, .observe = 20};
    std::vector<int64_t> budgets;
    for (OwnerIndex owner; owner.i < 5; ++owner) budgets.push_back(s.budget_of(owner, 5));
    EXPECT_EQ(budgets, (std::vector<int64_t>{175, 138, 100, 62, 25}));
    EXPECT_EQ(s.most_tokens(5), 175);
    EXPECT_EQ(s.budget_of(OwnerIndex(0), 1), 100);
    EXPECT_EQ(of(KvPolicy::kSnapKv).budget_of(OwnerIndex(1), 5), 31);
    s.observe = 97;  // only 3 slots above the window: all layers have the same
    EXPECT_EQ(s.budget_of(OwnerIndex(0), 2), 100);
    EXPECT_EQ(s.budget_of(OwnerIndex(1), 2), 100);
}

}  // namespace
}  // namespace trireme::test
