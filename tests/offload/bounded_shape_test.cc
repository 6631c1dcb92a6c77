// The budgets of each policy, as docs/background/eviction.md documents them.

#include "offload/policies/bounded_shape.h"

#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "offload/policies/bounded_memory.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

constexpr BoundedShape kShape = {.tokens = 31, .heavy = 12, .sinks = 3, .observe = 7, .pool = 5};

BoundedShape of(KvPolicy policy) {
    BoundedShape s = kShape;
    s.policy = policy;
    return s;
}

TEST(BoundedShape, SaysHowManyAreAlwaysKept) {
    for (const auto& [policy, recent] : {std::pair{KvPolicy::kH2o, 31 - 12},
                                         {KvPolicy::kStreaming, 31 - 3},
                                         {KvPolicy::kTova, 1},
                                         {KvPolicy::kSnapKv, 7},
                                         {KvPolicy::kPyramidKv, 7},
                                         {KvPolicy::kAdaKv, 7},
                                         {KvPolicy::kKeyNorm, 31 - 12},
                                         {KvPolicy::kRandom, 1}}) {
        EXPECT_EQ(of(policy).recent(), recent) << name_of(policy);
    }
}

TEST(BoundedShape, SaysWhichQueriesCount) {
    for (const auto& [policy, all, some] : {std::tuple{KvPolicy::kH2o, 100, 5},
                                            {KvPolicy::kStreaming, 0, 0},
                                            {KvPolicy::kTova, 1, 1},
                                            {KvPolicy::kSnapKv, 7, 5},
                                            {KvPolicy::kPyramidKv, 7, 5},
                                            {KvPolicy::kAdaKv, 7, 5},
                                            {KvPolicy::kKeyNorm, 0, 0},
                                            {KvPolicy::kRandom, 0, 0}}) {
        EXPECT_EQ(of(policy).counted(100), all) << name_of(policy);
        EXPECT_EQ(of(policy).counted(5), some) << name_of(policy);
    }
}

// One call takes the retained tokens and a conversation turn after them, also if one head has most of its layer's
// slots.
TEST(BoundedMemory, HasRoomForATurnAfterTheFullestHead) {
    const KvShape kv = {.layout = {2, 64, DType::kF16, DType::kF16}, .owner_layers = 4, .context = 100000};
    for (const KvPolicy policy : {KvPolicy::kH2o, KvPolicy::kPyramidKv, KvPolicy::kAdaKv}) {
        BoundedShape s = of(policy);
        s.all_heads = s.key_rows = 8;
        s.prompt = 60;
        s.turns = true;
        EXPECT_EQ(BoundedMemory::entries(kv, s), s.most_of_head(kv.owner_layers) + 60) << name_of(policy);
    }
    BoundedShape shared = of(KvPolicy::kAdaKv);
    shared.all_heads = 8;
    EXPECT_EQ(shared.most_of_head(4), 8 * 31 - 7 * 7);  // each other head keeps its recent tokens, or a fifth of W
}

TEST(BoundedShape, MakesARule) {
    for (const auto& [policy, by] : {std::pair{KvPolicy::kH2o, ScoreBy::kSum},
                                     {KvPolicy::kStreaming, ScoreBy::kNothing},
                                     {KvPolicy::kTova, ScoreBy::kLast},
                                     {KvPolicy::kSnapKv, ScoreBy::kWindow},
                                     {KvPolicy::kPyramidKv, ScoreBy::kWindow},
                                     {KvPolicy::kAdaKv, ScoreBy::kWindow},
                                     {KvPolicy::kKeyNorm, ScoreBy::kKeyNorm},
                                     {KvPolicy::kRandom, ScoreBy::kRandom}}) {
        BoundedShape s = of(policy);
        s.half_scores = s.per_query = true;
        s.decay = 0.5F;
        s.seed = 9;
        s.first_head = 4;
        const SlotRule rule = s.rule();
        EXPECT_EQ(rule.by, by) << name_of(policy);
        EXPECT_TRUE(rule.half && rule.per_query);
        EXPECT_EQ(rule.recent, s.recent());
        EXPECT_EQ(rule.sinks, 3);
        EXPECT_EQ(rule.decay, 0.5F);
        EXPECT_EQ(rule.seed, 9U);
        EXPECT_EQ(rule.first_head, 4);
        EXPECT_EQ(s.observing(), by == ScoreBy::kWindow);
        if (!s.observing()) continue;
        EXPECT_EQ(rule.window, 7);
        EXPECT_EQ(rule.pool, 5);
    }
}

// In addition to the window the first layer has 155 slots, and the last one 5, a twentieth of W; their mean is 80.
TEST(BoundedShape, FallsFromLayerToLayer) {
    BoundedShape s = {.policy = KvPolicy::kPyramidKv, .tokens = 100, .observe = 20};
    std::vector<int64_t> budgets;
    for (OwnerIndex owner; owner.i < 5; ++owner) budgets.push_back(s.budget(owner, 5));
    EXPECT_EQ(budgets, (std::vector<int64_t>{175, 138, 100, 62, 25}));
    EXPECT_EQ(s.most_tokens(5), 175);
    EXPECT_EQ(s.budget(OwnerIndex(0), 1), 100);
    EXPECT_EQ(of(KvPolicy::kSnapKv).budget(OwnerIndex(1), 5), 31);
    s.observe = 97;  // only 3 slots above the window: all layers have the same
    EXPECT_EQ(s.budget(OwnerIndex(0), 2), 100);
    EXPECT_EQ(s.budget(OwnerIndex(1), 2), 100);
}

TEST(BoundedShape, TakesWhatJustFits) {
    for (const BoundedShape& s : {BoundedShape{.policy = KvPolicy::kH2o, .tokens = 2, .heavy = 1, .sinks = 1},
                                  {.policy = KvPolicy::kH2o, .tokens = 8, .heavy = 7, .sinks = 7},
                                  {.policy = KvPolicy::kStreaming, .tokens = 8, .sinks = 7},
                                  {.policy = KvPolicy::kTova, .tokens = 8, .sinks = 7},
                                  {.policy = KvPolicy::kKeyNorm, .tokens = 9, .heavy = 4, .sinks = 4},
                                  {.policy = KvPolicy::kSnapKv, .tokens = 8, .sinks = 1, .observe = 7, .pool = 1},
                                  {.policy = KvPolicy::kPyramidKv, .tokens = 40, .sinks = 2, .observe = 20}}) {
        EXPECT_NO_THROW(check_bounded(s, 4)) << name_of(s.policy);
        BoundedShape more = s;
        ++more.sinks;
        EXPECT_THROW(check_bounded(more, 4), Error) << name_of(s.policy);
    }
    EXPECT_NO_THROW(check_bounded({}, 4));
}

}  // namespace
}  // namespace trireme::test
