// A round allocates nothing, for every proposer and every KV placement.

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "dist/self_comm.h"
#include "offload/plan/plan.h"
#include "tests/decode/retrieving.h"
#include "tests/support/allocations.h"
#include "tests/support/golden.h"

namespace trireme::test {
namespace {

/// Number of allocations in 20 rounds, after 10 rounds of warm-up.
int64_t allocations_of(Speculate& decoder, const std::vector<int32_t>& prompt) {
    decoder.prefill(prompt, {});
    decoder.begin(0);
    std::vector<int32_t> path(kMaxRows);
    std::iota(path.begin(), path.end(), 0);
    const auto round = [&] { decoder.resolve(std::span(path).first(decoder.propose(40).size()), -1); };
    // Threads, lanes and vectors are allocated on first use.
    for (int i = 0; i < 10; ++i) round();
    const int64_t before = allocations;
    for (int i = 0; i < 20; ++i) round();
    return allocations - before;
}

TEST(Rounds, AllocateNothing) {
    SelfComm comm;
    EngineOptions options;
    options.context = 1400;
    Engine engine(data_path("models/kjv-target"), options, comm, 2),
        small(data_path("models/kjv-draft"), options, comm);
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 600; ++i) prompt.push_back(i * i % 1000 + 3);
    const SamplingParams sampling = {.temperature = 0.8};
    for (const int64_t on_chip : {6, 3, 0}) {
        LevelOptions level = options.level();
        level.residency = {.on_chip = interleaved(6, on_chip), .span_bytes = 1 << 16};
        Retrieving levels(engine, level, {.budget = 64});
        {
            Drafter draft("draft", small.device(), *small, sampling, 1, 2, 2);
            DraftDistributions held(engine.device(), levels.middle, 8);
            Speculate middle(draft, levels.middle, sampling, 1,
                             {.verifier = "retrieval", .level = 1, .wanted = 8, .held = &held});
            Speculate triforce(middle, levels.target, sampling, 1, {.longest = 6, .siblings = 3});
            EXPECT_EQ(allocations_of(triforce, prompt), 0) << on_chip;
        }
        TreeDrafter tree("tree", engine.device(), levels.middle, sampling, 1, {.size = 20, .depth = 5});
        Speculate over_tree(tree, levels.target, sampling, 1);
        EXPECT_EQ(allocations_of(over_tree, prompt), 0) << on_chip;
    }
}

// The second model's layers share three owners.
TEST(Rounds, OfHeavyHittersAllocateNothing) {
    SelfComm comm;
    EngineOptions options;
    options.context = 1400;
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 600; ++i) prompt.push_back(i * i % 1000 + 3);
    const SamplingParams sampling = {.temperature = 0.8};
    for (const auto& [model, owners] : {std::pair{"models/kjv-target", 6}, {"models/kjv-lckv", 3}}) {
        Engine engine(data_path(model), options, comm, 2);
        for (const int64_t on_chip : {owners, owners / 2, 0}) {
            LevelOptions level = options.level();
            level.residency = {.on_chip = interleaved(owners, on_chip), .span_bytes = 1 << 16};
            Heavy heavy(engine, level, Heavy::of(64));
            Drafter by_heavy("h2o", engine.device(), heavy.middle, sampling, 1, 1, 5);
            Speculate over_heavy(by_heavy, heavy.target, sampling, 1);
            EXPECT_EQ(allocations_of(over_heavy, prompt), 0) << model << " " << on_chip;
        }
    }
}

}  // namespace
}  // namespace trireme::test
