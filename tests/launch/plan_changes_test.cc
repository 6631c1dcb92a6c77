#include "launch/commands/plan_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

constexpr size_t kGiB = size_t{1} << 30, kWeights = 13 * kGiB;

TEST(PlanChanges, AreThoseThatHelp) {
    const auto input_for = [](const PlanWish& w) {
        return PlanInput{
            .kv = {.layout = {.kv_heads = 32 / w.ranks, .head_dim = 128}, .owner_layers = 32, .context = w.context},
            .reads = {},
            .on_chip = w.on_chip,
            .weight_bytes = kWeights / static_cast<size_t>(w.ranks),
            .hidden_on_device = {.device = static_cast<size_t>(w.context) * 4096 * 4},
            .hidden_on_host = {.host = static_cast<size_t>(w.context) * 4096 * 4},
            .retrieval = w.retrieval};
    };
    const PlanWish wish = {.context = 130048, .ranks = 2, .on_chip = 9, .retrieval = {.budget = 12288, .chunk = 8}};
    const size_t needed = plan_with(input_for(wish), 9, /*hidden_on_host=*/true).total().device;
    const size_t summaries = wish.retrieval.summary_bytes(input_for(wish).kv);
    const auto with_chunk = [&](int64_t chunk) {
        return RetrievalShape{.budget = 12288, .chunk = chunk}.memory(input_for(wish).kv).device;
    };
    const auto changes = [&](size_t device) {
        return changes_that_fit(wish, input_for, {.device_memory = device, .host_memory = 128 * kGiB}, 8);
    };
    // Summaries halve with each doubling of the chunk. One byte less than that size requires the next larger chunk.
    for (const int64_t chunk : {16, 32, 64, 128, 256}) {
        const size_t saved = with_chunk(8) - with_chunk(chunk), before = with_chunk(8) - with_chunk(chunk / 2);
        for (const size_t device : {needed - saved, needed - before - 1}) {
            const std::vector<std::string> all = changes(device);
            EXPECT_THAT(all[0], testing::StartsWith(fmt::format("--retrieval-chunk {}: ", chunk))) << device;
        }
    }
    const std::vector<std::string> tight = changes(needed - summaries);
    ASSERT_EQ(tight.size(), 4u);
    EXPECT_THAT(tight[0], testing::StartsWith("--kv-on-chip 6: "));  // two layers give 1.984 GiB less their tails
    EXPECT_THAT(tight[1], testing::StartsWith("--retrieval-budget 4096: "));
    EXPECT_THAT(tight[2], testing::StartsWith("--ctx-size "));
    EXPECT_THAT(tight[3], testing::StartsWith("4 ranks on 4 "));
    EXPECT_TRUE(changes(kGiB).empty());

    PlanWish vast = wish;  // a budget for which the search halves often
    vast.retrieval.budget = int64_t{1} << 24;
    const std::vector<std::string> less = changes_that_fit(vast, input_for, {needed, 128 * kGiB}, 8);
    ASSERT_FALSE(less.empty());
    EXPECT_THAT(less[0], testing::StartsWith("--retrieval-budget 12"));
}

}  // namespace
}  // namespace trireme::test
