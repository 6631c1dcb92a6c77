#include "offload/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "offload/plan/step_forecast.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30;

/// Llama-2-7B in f16 on each of 2 ranks.
PlanInput llama_2_7b(int64_t context, int64_t on_chip) {
    PlanInput in = {.kv = {.layout = {.kv_heads = 16, .head_dim = 128}, .owner_layers = 32, .context = context},
                    .reads = {},
                    .on_chip = on_chip};
    for (int64_t owner = 0; owner < 32; ++owner) in.reads.emplace_back(owner);
    in.weight_bytes = size_t{6500} * kMiB;
    in.weight_bytes_per_step = size_t{6426} * kMiB;
    in.work.device = size_t{300} * kMiB;
    in.hidden_on_device.device = in.hidden_on_host.host = static_cast<size_t>(context) * 4096 * 4;
    return in;
}

TEST(Plan, SpreadsLayersOnChipEvenly) {
    EXPECT_EQ(interleaved(6, 3), (std::vector<bool>{false, true, false, true, false, true}));
    EXPECT_EQ(interleaved(5, 0), std::vector<bool>(5, false));
    EXPECT_EQ(interleaved(5, 5), std::vector<bool>(5, true));
    for (int64_t owners = 1; owners <= 40; ++owners) {
        for (int64_t n = 0; n <= owners; ++n) {
            const std::vector<bool> on = interleaved(owners, n);
            int64_t count = 0, run = 0, longest = 0;
            for (const bool o : on) {
                count += o;
                run = o ? 0 : run + 1;
                longest = std::max(longest, run);
            }
            EXPECT_EQ(count, n);
            EXPECT_EQ(longest, n == 0 ? owners : (owners + n - 1) / n - 1) << owners << " " << n;
        }
    }
}

TEST(Plan, CountsWhatLiesWhere) {
    const PlanInput in = llama_2_7b(130048, 12);
    const Plan p = make_plan(in, {.device_memory = 64 * kGiB, .host_memory = 64 * kGiB});

    const size_t tile = size_t{2} * 16 * 256 * 128 * 2;  // 2 MiB
    EXPECT_EQ(in.kv.layer_bytes(), 508 * tile);
    EXPECT_EQ(p.on_chip_layers, 12);
    EXPECT_EQ(p.kv.device, 12 * 508 * tile);
    EXPECT_EQ(p.kv.host, 20 * 508 * tile);
    EXPECT_EQ(p.span_tiles, 127);  // a quarter of a layer
    EXPECT_EQ(p.ring_bytes, 508 * tile);
    EXPECT_EQ(p.tail_bytes, 20 * 2 * tile);
    EXPECT_EQ(p.hidden.device, size_t{130048} * 4096 * 4);
}

TEST(Plan, AllOnChipNeedsNoRing) {
    const Plan p = make_plan(llama_2_7b(4096, PlanInput::kAll), {.device_memory = 64 * kGiB, .host_memory = 64 * kGiB});
    EXPECT_EQ(p.streamed_layers, 0);
    EXPECT_EQ(p.ring_bytes + p.tail_bytes + p.hidden.device + p.kv.host, 0u);
}

TEST(Plan, AutoTakesAsManyAsFit) {
    const PlanInput in = llama_2_7b(130048, PlanInput::kAuto);
    for (const size_t gib : {12, 16, 20, 24, 30, 36, 40, 41}) {
        const Machine m = {.device_memory = gib * kGiB, .host_memory = 128 * kGiB};
        const Plan p = make_plan(in, m);
        ASSERT_TRUE(p.fits(m)) << gib;
        for (const bool hidden_on_host : {false, true}) {
            EXPECT_TRUE(p.on_chip_layers == 32 || !plan_with(in, p.on_chip_layers + 1, hidden_on_host).fits(m)) << gib;
        }
        EXPECT_TRUE(!p.hidden_on_host || !plan_with(in, p.on_chip_layers).fits(m)) << gib;
    }
    EXPECT_EQ(make_plan(in, {.device_memory = 80 * kGiB, .host_memory = kGiB}).on_chip_layers, 32);
    // Host memory is short: a plan fits only if it streams fewer layers.
    const Machine narrow = {.device_memory = 40 * kGiB, .host_memory = 8 * kGiB};
    const Plan p = make_plan(in, narrow);
    EXPECT_TRUE(p.fits(narrow));
    EXPECT_LE(p.kv.host, 8 * kGiB);
}

TEST(Plan, WhatDoesNotFitIsThePlanThatComesClosest) {
    PlanInput in = llama_2_7b(130048, PlanInput::kAuto);
    in.hidden_on_device = in.hidden_on_host = {};  // only layers are counted
    // There is room for 25 layers on chip, and 700 MiB less host memory than the other seven take.
    const size_t device = plan_with(in, 25).total().device + 100 * kMiB, lacking = 700 * kMiB;
    const Machine m = {.device_memory = device, .host_memory = plan_with(in, 25).total().host - lacking};
    const Plan p = make_plan(in, m);

    EXPECT_EQ(p.on_chip_layers, 25);
    EXPECT_EQ(p.shortage(m).host, lacking);
    EXPECT_EQ(p.shortage(m).device + p.shortage(m).together, 0u);
    for (int64_t n = 0; n <= 32; ++n) {
        for (const bool hidden_on_host : {false, true}) {
            EXPECT_GE(plan_with(in, n, hidden_on_host).shortage(m).total(), lacking) << n;
        }
    }

    // One memory for both: the placement of layers does not change the total, except for the ring and the newest tiles.
    const size_t all = plan_with(in, 32).total().device + plan_with(in, 32).total().host;
    const Machine one = {.device_memory = 2 * all, .host_memory = 2 * all, .together = all - kGiB};
    EXPECT_EQ(make_plan(in, one).on_chip_layers, 32);
    EXPECT_EQ(make_plan(in, one).shortage(one).together, kGiB);
    EXPECT_EQ(make_plan(in, one).shortage(one).total(), kGiB);
}

TEST(Plan, FindsTheLeastMemoryThatIsEnough) {
    const PlanInput in = llama_2_7b(130048, PlanInput::kAuto);
    const auto just_enough = [&](Machine m, size_t Machine::*which) {
        const size_t least = least_memory(in, m, which);
        EXPECT_GT(least, m.*which);
        m.*which = least;
        EXPECT_TRUE(make_plan(in, m).fits(m));
        m.*which = least - 1;
        EXPECT_FALSE(make_plan(in, m).fits(m));
    };
    just_enough({.device_memory = 20 * kGiB, .host_memory = 8 * kGiB}, &Machine::host_memory);
    just_enough({.device_memory = 20 * kGiB, .host_memory = 8 * kGiB}, &Machine::device_memory);

    // More host memory helps neither a device that cannot hold the weights, nor a machine with one memory for both.
    EXPECT_EQ(least_memory(in, {.device_memory = kGiB, .host_memory = kGiB}, &Machine::host_memory), 0u);
    const Machine one = {.device_memory = 20 * kGiB, .host_memory = 8 * kGiB, .together = 20 * kGiB};
    EXPECT_EQ(least_memory(in, one, &Machine::host_memory), 0u);
    EXPECT_EQ(least_memory(in, one, &Machine::device_memory), 0u);
    const Machine enough = {.device_memory = 60 * kGiB, .host_memory = kGiB};
    EXPECT_EQ(least_memory(in, enough, &Machine::host_memory), 0u);  // it fits already
}

TEST(Plan, CountsWhatIsOneMemoryOnce) {
    const Plan p = make_plan(llama_2_7b(32768, 16), {.device_memory = 64 * kGiB, .host_memory = 64 * kGiB});
    const size_t both = p.total().device + p.total().host;
    ASSERT_GT(p.total().host, kGiB);
    const auto fits = [&](size_t device, size_t host, size_t together) {
        return p.fits({.device_memory = device, .host_memory = host, .together = together});
    };
    EXPECT_TRUE(fits(p.total().device, p.total().host, both));
    EXPECT_FALSE(fits(both, both, both - 1));
    EXPECT_FALSE(fits(both, p.total().host - 1, both));
    EXPECT_FALSE(fits(p.total().device - 1, both, both));
}

TEST(Plan, RefusesMoreLayersThanThereAre) {
    EXPECT_THROW(make_plan(llama_2_7b(4096, 33), {}), Error);
}

TEST(Plan, FindsTheLargestContext) {
    const Machine m = {.device_memory = 12 * kGiB, .host_memory = 16 * kGiB};
    const auto input_for = [](int64_t context) { return llama_2_7b(context, PlanInput::kAuto); };
    const int64_t most = most_tokens(input_for, m, 1 << 20);

    EXPECT_EQ(most % 256, 0);
    EXPECT_TRUE(make_plan(input_for(most), m).fits(m));
    EXPECT_FALSE(make_plan(input_for(most + 256), m).fits(m));
    EXPECT_EQ(most_tokens(input_for, {.device_memory = kGiB, .host_memory = kGiB}, 1 << 20), 0);
}

// TriForce's measured baseline (reference triforce.md): 2 x RTX 4090, 127 K tokens, 12 layers on chip, PCIe at 25.4
// GB/s.
TEST(Plan, PredictsTheKnownBaseline) {
    const PlanInput in = llama_2_7b(130048, 12);
    const Machine m = {
        .device_memory = 24 * kGiB, .host_memory = 128 * kGiB, .device_gbps = 900, .link_gbps = 25.4, .link_us = 10};
    const StepForecast f = forecast(in, plan_with(in, 12), m, 130048);

    EXPECT_NEAR(f.step_ms, 840, 0.05 * 840);
    EXPECT_NEAR(f.copy_ms, f.step_ms, 0.02 * f.step_ms);  // the link is the bottleneck
}

// Reference triforce.md 1.4 and 9: one layer's summaries take 127 MiB at 8 tokens, 7.9 MiB at 128, on one rank; a
// budget of 12,288 tokens takes 6 GiB.
TEST(Plan, CountsWhatRetrievalKeeps) {
    const KvShape whole = {.layout = {.kv_heads = 32, .head_dim = 128}, .owner_layers = 32, .context = 130048};
    const auto retrieval = [](int64_t budget, int64_t chunk) {
        return RetrievalShape{.budget = budget, .chunk = chunk};
    };
    EXPECT_EQ(retrieval(12288, 8).summary_bytes(whole), 32 * 127 * kMiB);
    EXPECT_EQ(retrieval(12288, 128).summary_bytes(whole), 32 * 127 * kMiB / 16);
    // 48 tiles of 4 MiB per layer, and three for the last 256 tokens, a chunk that overlaps them, and 256 new ones.
    EXPECT_EQ(retrieval(12288, 8).set_bytes(whole), 6 * kGiB + 32 * 3 * 4 * kMiB);
    EXPECT_EQ(retrieval(12288, 8).slots(130048), 12288 + 256 + 8 + 256);
    EXPECT_EQ(retrieval(0, 8).memory(whole), MemoryBytes());
    EXPECT_EQ(retrieval(0, 8).set_bytes(whole), 0u);
    EXPECT_EQ(retrieval(0, 8).summary_bytes(whole), 0u);
    RetrievalShape shape = retrieval(12288, 8);
    shape.comes_back = true;
    EXPECT_EQ(shape.memory(whole).host - retrieval(12288, 8).memory(whole).host, shape.set_bytes(whole));
    shape.every = 6;
    EXPECT_EQ(shape.slots(130048), 12288 + 256 + 8 + 6 * 64);
    // A set that is selected once grows with the sequence.
    shape.every = RetrievalShape::kNever;
    EXPECT_EQ(shape.slots(130048), 130048);
    EXPECT_EQ(shape.slots(300), 300);

    KvShape wide = whole;  // keys in f32, a last tile that is not full
    wide.layout.k_type = DType::kF32;
    wide.context = 130049;
    EXPECT_EQ(retrieval(256, 8).summary_bytes(wide), size_t{32} * (130048 + 256) / 8 * 4096 * 4);
}

// The set holds all tokens while they fit. Then candidates are the chunks that end 256 tokens before the end of the
// sequence, and the budget holds some of them.
// A set that is chosen once has room for what a run generates, and for a round. A run may generate nothing.
TEST(RetrievalShape, HasRoomForWhatIsGenerated) {
    RetrievalShape shape = {.budget = 64, .chunk = 8, .every = RetrievalShape::kNever};
    for (const int64_t generated : {0, 1, 500}) {
        shape.generated = generated;
        EXPECT_EQ(shape.slots(100'000), 64 + RetrievalShape::kRecent + 8 + generated + kMaxRows);
    }
    shape.generated = -1;  // unknown
    EXPECT_EQ(shape.slots(100'000), 100'000);
}

TEST(RetrievalShape, PicksOfWhatIsNotRecent) {
    const RetrievalShape shape = {.budget = 64, .chunk = 8};
    for (const int64_t tokens : {0, 1, 255, 256, 263, 264, 320, 327, 328, 400, 130048}) {
        const ChunkPick p = shape.pick(tokens);
        EXPECT_EQ(p.tokens, tokens);
        EXPECT_EQ(p.candidates, std::max(int64_t{0}, (tokens - 256) / 8)) << tokens;
        EXPECT_EQ(p.picked, std::min(p.candidates, 8)) << tokens;
        EXPECT_LE(p.slots(8), shape.slots(130048)) << tokens;
        if (tokens < 328) {
            EXPECT_EQ(p.slots(8), tokens);
        }
    }
    // Chunks of one token, and a budget of one chunk.
    EXPECT_EQ((RetrievalShape{.budget = 64, .chunk = 1}).pick(255).candidates, 0);
    EXPECT_EQ((RetrievalShape{.budget = 64, .chunk = 1}).pick(258).candidates, 2);
    EXPECT_EQ((RetrievalShape{.budget = 8, .chunk = 8}).pick(400).picked, 1);
}

TEST(Plan, ReportsThePeaksOfBothPhases) {
    PlanInput in = llama_2_7b(130048, 9);
    in.retrieval = {.budget = 12288, .chunk = 8};
    in.proposing = {.device = 200 * kMiB, .host = 3 * kMiB};
    in.prefill_work_bytes = 30 * kMiB;
    in.prompt_batches.device = 20 * kMiB;
    const Plan p = plan_with(in, 9), without = plan_with(llama_2_7b(130048, 9), 9);

    EXPECT_EQ(p.total().device - without.total().device, in.retrieval.memory(in.kv).device + 200 * kMiB + 20 * kMiB);
    EXPECT_EQ(p.total().device - p.decode_bytes(), in.hidden_on_device.device + 50 * kMiB);
    EXPECT_EQ(p.total().host - without.total().host, in.retrieval.memory(in.kv).host + 3 * kMiB);
}

TEST(Plan, AStepIsNoShorterThanCopiesOrComputeAndNoLongerThanBoth) {
    const PlanInput in = llama_2_7b(130048, 0);
    for (const int64_t on_chip : {0, 7, 16, 31, 32}) {
        for (const double link : {5.0, 25.0, 400.0, 2000.0}) {
            const Machine m = {.device_gbps = 900, .link_gbps = link, .link_us = 5};
            const StepForecast f = forecast(in, plan_with(in, on_chip), m, 120000);
            EXPECT_GE(f.step_ms, std::max(f.copy_ms, f.compute_ms) * (1 - 1e-9)) << on_chip << " " << link;
            EXPECT_LE(f.step_ms, (f.copy_ms + f.compute_ms) * (1 + 1e-9)) << on_chip << " " << link;
            // Tiles that a row can see: all but the two newest come over the link.
            EXPECT_EQ(f.h2d_bytes, static_cast<size_t>(32 - on_chip) * (120000 / 256 - 1) * in.kv.layout.tile_bytes());
        }
    }
}

// While the device does other work, the link fills the ring and no more than the ring.
TEST(Plan, AStepAfterAPauseIsShorterByTheRing) {
    const PlanInput in = llama_2_7b(130048, 0);
    const Plan plan = plan_with(in, 0);
    const Machine m = {.device_gbps = 900, .link_gbps = 25};
    const double alone = forecast(in, plan, m, 120000).step_ms;
    const double ring_ms = static_cast<double>(plan.ring_bytes) / 25e6;
    for (const double pause : {0.0, 0.5 * ring_ms, ring_ms, 100 * ring_ms}) {
        const StepForecast f = forecast(in, plan, m, 120000, pause);
        EXPECT_GE(f.step_ms, std::max(alone, pause + alone - ring_ms) * (1 - 1e-9)) << pause;
        EXPECT_LE(f.step_ms, pause + alone) << pause;
    }
    EXPECT_LT(forecast(in, plan, m, 120000, 100 * ring_ms).step_ms, 100 * ring_ms + alone - ring_ms / 2);
}

TEST(Plan, AStepOnChipTakesItsBytes) {
    const PlanInput in = llama_2_7b(130048, 32);
    const StepForecast f = forecast(in, plan_with(in, 32), {.device_gbps = 900}, 120000);
    EXPECT_NEAR(f.step_ms, step_bytes(in, 120000) / 900e6, 1e-9 * f.step_ms);
}

/// A plan's input for owners of a few tiles; `reads`: the owner that each layer reads.
PlanInput read_as(const std::vector<int>& reads, int64_t sequences = 1, int64_t on_chip = PlanInput::kAuto) {
    const int owners = *std::ranges::max_element(reads) + 1;
    PlanInput in = {.kv = {.layout = {.kv_heads = 4, .head_dim = 64},
                           .owner_layers = owners,
                           .sequences = sequences,
                           .context = 20 * kTileTokens},
                    .reads = {},
                    .on_chip = on_chip};
    for (const int owner : reads) in.reads.emplace_back(owner);
    in.span_bytes = 1;
    in.weight_bytes = in.weight_bytes_per_step = 10 * kMiB;
    return in;
}
int64_t crossings_of(const Plan& p) {
    return std::accumulate(p.crossings.begin(), p.crossings.end(), int64_t{0});
}

// Of the plans that fit, the planner takes the one with the fewest crossings of the link; of these, the one with most
// layers on chip.
TEST(Plan, HoldsLayersForTheirReadersWhereThatIsBest) {
    std::mt19937 random(3);
    int with_frames = 0;
    for (int trial = 0; trial < 200; ++trial) {
        // Groups of layers that read two owners in random order.
        std::vector<int> reads;
        for (int i = 0; i < 20; ++i) {
            reads.push_back(i / 5 * 2 + (i % 5 < 2 ? i % 5 : static_cast<int>(random() % 2)));
        }
        const PlanInput in = read_as(reads, 1 + static_cast<int64_t>(random() % 3));
        for (int layers = 0; layers <= 8; ++layers) {
            const Machine m = {.device_memory = plan_with(in, 0).total().device + layers * in.kv.layer_bytes() + 1000,
                               .host_memory = kGiB};
            const Plan p = make_plan(in, m);
            int64_t fewest = INT64_MAX, most = -1;
            for (int64_t n = 0; n <= 8; ++n) {
                for (int64_t frames = 0; frames <= 6; ++frames) {
                    const Plan other = plan_with(in, n, false, frames);
                    if (!other.fits(m)) continue;
                    if (crossings_of(other) < fewest) most = n;
                    fewest = std::min(fewest, crossings_of(other));
                    if (crossings_of(other) == fewest) most = std::max(most, n);
                }
            }
            EXPECT_TRUE(p.fits(m));
            EXPECT_EQ(crossings_of(p), fewest) << trial << " " << layers;
            EXPECT_EQ(p.on_chip_layers, most) << trial << " " << layers;
            with_frames += p.frames > 0 ? 1 : 0;
        }
    }
    EXPECT_GT(with_frames, 100);
}

TEST(Plan, AStepFetchesALayerAsOftenAsItCrosses) {
    std::mt19937 random(4);
    for (int trial = 0; trial < 300; ++trial) {
        std::vector<int> reads;
        for (int i = 0; i < 10; ++i) reads.push_back(static_cast<int>(random() % 4));
        reads.push_back(3);
        PlanInput in = read_as(reads, 1 + static_cast<int64_t>(random() % 3));
        if (random() % 2 == 0) in.kv.common = 6 * kTileTokens;
        const Plan p = plan_with(in, static_cast<int64_t>(random() % 4), false, static_cast<int64_t>(random() % 4));
        const int64_t length = in.kv.context - 1, on_host = length / kTileTokens - 1;
        const int64_t tiles = in.kv.common_tiles() + in.kv.sequences * (on_host - in.kv.common_tiles());
        const Machine m = {.device_gbps = 30, .link_gbps = 10, .link_us = 5};
        const StepForecast f = forecast(in, p, m, length);
        EXPECT_EQ(f.h2d_bytes, static_cast<size_t>(crossings_of(p) * tiles) * in.kv.layout.tile_bytes()) << trial;
        EXPECT_GE(f.step_ms, std::max(f.copy_ms, f.compute_ms) * (1 - 1e-9));
        EXPECT_LE(f.step_ms, (f.copy_ms + f.compute_ms) * (1 + 1e-9));
        EXPECT_NEAR(f.compute_ms, step_bytes(in, length) / 30e6, 1e-9 * f.compute_ms);
    }
}

// The sequences of one forward read the weights once; more sequences than rows take more forwards, and read them again.
TEST(Plan, AStepOfManySequencesTakesSeveralForwards) {
    const Machine m = {.device_gbps = 30, .link_gbps = 10};
    const auto step = [&](int64_t sequences) {
        const PlanInput in = read_as({0, 1}, sequences);
        return forecast(in, plan_with(in, 2), m, 300).step_ms;
    };
    const double weights = 10.0 * static_cast<double>(kMiB) / 30e6, each = step(1) - weights;
    EXPECT_NEAR(step(64), weights + 64 * each, 1e-9);
    EXPECT_NEAR(step(130), 3 * weights + 130 * each, 1e-9);
}

}  // namespace
}  // namespace trireme::test
