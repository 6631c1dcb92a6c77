// Chains in which a level over heavy hitters proposes or verifies: the output is that of plain decoding, for every KV
// placement and every number of ranks.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/plain.h"
#include "decode/speculate.h"
#include "tests/decode/long_prompt.h"
#include "tests/decode/retrieving.h"
#include "tests/support/random_model.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

using HeavyHitters = LongPrompt;

TEST_F(HeavyHitters, AloneArePlainDecodingWhenGreedy) {
    for (const int64_t on_chip : {6, 3, 0}) {
        for (const int64_t tokens : {16, 64, 300}) {
            Heavy levels(engine, options(on_chip), Heavy::of(tokens));
            Drafter drafter("h2o", engine.device(), levels.middle, request.sampling, 0, 1, 7);
            Speculate speculate(drafter, levels.target, request.sampling, 0);

            EXPECT_EQ(ids_of(speculate, request), plain) << on_chip << " " << tokens;
            EXPECT_GT(speculate.stats().accepted, speculate.stats().proposed / 4) << on_chip << " " << tokens;
        }
    }
}

TEST_F(HeavyHitters, OfTheWholeTextProposeWhatTheTargetSays) {
    for (const int64_t on_chip : {6, 0}) {
        Heavy levels(engine, options(on_chip), Heavy::of(1024));
        Drafter drafter("h2o", engine.device(), levels.middle, request.sampling, 0, 1, 7);
        Speculate speculate(drafter, levels.target, request.sampling, 0);

        EXPECT_EQ(ids_of(speculate, request), plain);
        EXPECT_EQ(speculate.stats().accepted, speculate.stats().proposed);
    }
}

TEST_F(HeavyHitters, MayCheckWhatADraftProposes) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    for (const int64_t on_chip : {6, 2}) {
        for (const int64_t length : {3, 12}) {
            Heavy levels(engine, options(on_chip), Heavy::of(64));
            Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 2, 2);
            DraftDistributions held(engine.device(), levels.middle, length);
            Speculate middle(draft, levels.middle, request.sampling, 0,
                             {.verifier = "h2o", .level = 1, .wanted = length, .held = &held});
            Speculate speculate(middle, levels.target, request.sampling, 0);

            EXPECT_EQ(ids_of(speculate, request), plain) << on_chip << " " << length;
            EXPECT_STREQ(speculate.name(), "draft+h2o+full");
            EXPECT_GT(middle.stats().accepted, 0);
        }
    }
}

// One full cache fills both the retrieval set and the heavy hitters.
TEST_F(HeavyHitters, MayProposeToARetrievingLevel) {
    for (const int64_t on_chip : {6, 2}) {
        Heavy levels(engine, options(on_chip), Heavy::of(32));
        RetrievalSet retrieved(engine.device(), levels.target.stream(), *levels.target.full(), {.budget = 64});
        Level retrieving(engine.device(), comm, engine.weights(), over_set(options(on_chip), retrieved));
        Drafter drafter("h2o", engine.device(), levels.middle, request.sampling, 0, 2, 2);
        DraftDistributions held(engine.device(), retrieving, 6);
        Speculate middle(drafter, retrieving, request.sampling, 0,
                         {.verifier = "retrieval", .level = 1, .wanted = 6, .held = &held});
        Speculate speculate(middle, levels.target, request.sampling, 0);

        EXPECT_EQ(ids_of(speculate, request), plain) << on_chip;
        EXPECT_GT(middle.stats().accepted, 0);
        EXPECT_GT(speculate.stats().accepted, 0);
    }
}

// Sample i depends on the seed and i alone: it does not see what an earlier sample retained. Otherwise the number of
// rounds would differ.
TEST_F(HeavyHitters, SamplesBeginWithWhatThePromptChose) {
    request.sampling = {.temperature = 0.8};
    std::vector<std::vector<int32_t>> alone;
    for (const bool two_before : {false, true}) {
        Heavy levels(engine, options(3), Heavy::of(32));
        Drafter drafter("h2o", engine.device(), levels.middle, request.sampling, 5, 1, 5);
        Speculate speculate(drafter, levels.target, request.sampling, 5);
        alone.push_back(rounds_of_sample_2(speculate, two_before));
    }
    EXPECT_EQ(alone[0], alone[1]);
}

/// Models whose layers read the KV of earlier or later layers; one map has an owner that does not read its own.
RandomShape shape_of(const std::string& map) {
    return {.name = "heavy",
            .layers = std::ranges::count(map, '_') + 1,
            .dim = 96,
            .heads = 6,
            .kv_heads = 3,
            .head_dim = 16,
            .ffn = 96,
            .vocab = 96,
            .context = 1024,
            .layer_map = map};
}
const char* const kMaps[] = {"0_1_2", "0_0_2_2_4", "0_3_3_3_4", "1_2_0"};  // three owners each

std::vector<int32_t> random_prompt() {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 300; ++i) prompt.push_back((i * i * 7 + i * 3 + 11) % 96);
    return prompt;
}
/// The middle one of three owners is streamed.
LevelOptions streaming_options() {
    LevelOptions options = EngineOptions{.context = 512}.level();
    options.residency = {.on_chip = {true, false, true}, .span_bytes = 1};
    options.passes = {.how = Passes::How::kFixed, .n = 3};
    return options;
}

// If heads retain the whole sequence, layers see what they see in the full model, for every layer map.
TEST(HeavyHittersOfMaps, OfTheWholeTextProposeWhatTheTargetSays) {
    SelfComm comm;
    for (const char* map : kMaps) {
        Engine engine(std::make_unique<RandomModel>(shape_of(map)), {.weights = DType::kF32, .context = 512}, comm);
        Heavy levels(engine, streaming_options(), Heavy::of(512));
        const SamplingParams sampling = {.temperature = 0};
        Drafter drafter("h2o", engine.device(), levels.middle, sampling, 0, 1, 7);
        Speculate speculate(drafter, levels.target, sampling, 0);
        Plain alone(levels.target, sampling, 0);
        GenerateStats stats;
        const std::vector<int32_t> prompt = random_prompt();
        const auto ids_by = [&](Decoder& decoder) {
            return trireme::generate(decoder, nullptr, {.prompt = prompt, .max_new = 60}, stats).at(0).ids;
        };

        EXPECT_EQ(ids_by(speculate), ids_by(alone)) << map;
        EXPECT_GT(speculate.stats().proposed, 40) << map;
        EXPECT_EQ(speculate.stats().accepted, speculate.stats().proposed) << map;
    }
}

// 3 KV heads on 4 ranks: some heads are on two ranks, which retain the same tokens. All ranks propose the same tokens,
// and one rank accepts as many as four.
class HeavyHittersOfRanks : public testing::TestWithParam<const char*> {};

TEST_P(HeavyHittersOfRanks, ProposeTheSame) {
    for (const HeadsBy heads : {HeadsBy::kFirst, HeadsBy::kMean, HeadsBy::kMax}) {
        for (const double temperature : {0.0, 0.7}) {
            std::vector<int64_t> first;
            for (const int ranks : {1, 2, 3, 4}) {
                if (kSanitized && (heads != HeadsBy::kMean || ranks > 2)) continue;
                std::vector<std::vector<int64_t>> told(static_cast<size_t>(ranks));
                run_ranks(ranks, [&](Comm& comm) {
                    Engine engine(std::make_unique<RandomModel>(shape_of(GetParam())),
                                  {.weights = DType::kF32, .context = 512}, comm);
                    EvictionShape kept = Heavy::of(24);
                    kept.heads = heads;
                    kept.one_set = temperature > 0;
                    Heavy levels(engine, streaming_options(), kept);
                    const SamplingParams sampling = {.temperature = temperature};
                    Drafter drafter("h2o", engine.device(), levels.middle, sampling, 3, 1, 5);
                    Speculate speculate(drafter, levels.target, sampling, 3);
                    GenerateStats stats;
                    const std::vector<int32_t> prompt = random_prompt();
                    const auto ids_by = [&](Decoder& decoder) {
                        return trireme::generate(decoder, nullptr, {.prompt = prompt, .max_new = 60}, stats).at(0).ids;
                    };
                    const std::vector<int32_t> ids = ids_by(speculate);
                    std::vector<int64_t>& mine = told[static_cast<size_t>(comm.rank())];
                    mine.assign(ids.begin(), ids.end());
                    for (const RoundStats& r : speculate.rounds()) mine.insert(mine.end(), {r.proposed, r.accepted});
                    if (temperature > 0) return;
                    Plain plain(levels.target, sampling, 3);
                    EXPECT_EQ(ids, ids_by(plain));
                });
                for (const std::vector<int64_t>& mine : told) EXPECT_EQ(mine, told[0]) << ranks;
                if (ranks == 1) first = told[0];
                EXPECT_EQ(told[0], first) << ranks << " ranks, heads by " << static_cast<int>(heads);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Maps, HeavyHittersOfRanks, testing::Values("0_1_2", "0_3_3_3_4"),
                         [](const auto& param) { return "m" + std::string(param.param); });

}  // namespace
}  // namespace trireme::test
