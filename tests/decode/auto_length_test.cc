// Adaptive draft lengths: chains emit the tokens of plain decoding, with drafting on and off, on one rank and several;
// the costs of levels are measured.

#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "decode/speculate.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

constexpr int64_t kMost = GammaController::kMost;

LevelCosts costs(double ms, double ms_per_row = 0) {
    return {.level = "made up", .points = {{1, ms + ms_per_row}, {2, ms + 2 * ms_per_row}}};
}
/// Costs of the full, middle and draft level. Proposals are long, moderate, absent; in the last chain the middle level
/// proposes without the draft.
const SpecCosts kChains[] = {{costs(100), costs(10), costs(0.1)},
                             {costs(100, 1), costs(10, 1), costs(3)},
                             {costs(1, 1), costs(10, 1), costs(50)},
                             {costs(100), costs(1), costs(50)}};

class AutoLength : public KjvPrompt {
  protected:
    void SetUp() override { request.max_new = 150; }
    std::vector<int32_t> plain() { return generate(*engine, tokenizer.get(), request, stats).at(0).ids; }
    Engine draft_engine{data_path("models/kjv-draft"), kExact, comm};
};

TEST_F(AutoLength, OfTwoLevelsIsPlainDecodingWhenGreedy) {
    const std::vector<int32_t> alone = plain();
    std::vector<double> asked;
    for (const SpecCosts& all : kChains) {
        Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, kMost);
        GammaController lengths;
        set_costs({&lengths, 1}, {all[0], all[2]});
        Speculate speculate(draft, *engine, request.sampling, 0, {.gamma = &lengths});

        EXPECT_EQ(ids_of(speculate, request, stats), alone);
        asked.push_back(static_cast<double>(speculate.stats().asked) / static_cast<double>(stats.rounds));
    }
    EXPECT_GT(asked[0], asked[1]);
    EXPECT_GT(asked[1], asked[2]);
    EXPECT_EQ(asked[2], 0);  // a row costs as much as a forward
}

TEST_F(AutoLength, OfNgramsIsPlainDecodingWhenGreedy) {
    request.prompt = tokenizer->encode("And God said, Let there be light: and there was light. And God said,", true);
    const std::vector<int32_t> alone = plain();
    for (const double ms_per_row : {0.0, 5.0, 200.0}) {
        Ngram ngram(kMost);
        GammaController lengths;
        lengths.set_costs(costs(100, ms_per_row), nullptr, 0);
        Speculate speculate(ngram, *engine, request.sampling, 0, {.gamma = &lengths});

        EXPECT_EQ(ids_of(speculate, request, stats), alone) << ms_per_row;
    }
}

TEST_F(AutoLength, OfThreeLevelsIsPlainDecodingWhenGreedy) {
    const std::vector<int32_t> alone = plain();
    Level middle(engine.device(), comm, engine.weights(), {.context = 512});
    for (const SpecCosts& all : kChains) {
        for (const int64_t fixed : {GammaController::kAuto, int64_t{2}}) {
            std::vector<GammaController> lengths = {GammaController(), GammaController(fixed)};
            set_costs(lengths, all);
            Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 2, kMost);
            DraftDistributions held(engine.device(), middle, kMost);
            Speculate retrieval(
                draft, middle, request.sampling, 0,
                {.verifier = "retrieval", .level = 1, .wanted = kMost, .held = &held, .gamma = &lengths[1]});
            Speculate speculate(retrieval, *engine, request.sampling, 0, {.gamma = &lengths[0]});

            EXPECT_EQ(ids_of(speculate, request, stats), alone) << all[0].ms(1) << " " << fixed;
            // The middle level sees what the target sees: every token that it proposes is accepted.
            EXPECT_EQ(speculate.stats().accepted, speculate.stats().proposed);
            EXPECT_EQ(speculate.stats().proposed > 0, &all != &kChains[2]);
            EXPECT_EQ(retrieval.stats().accepted > 0, &all != &kChains[2] && (&all != &kChains[3] || fixed > 0));
        }
    }
}

TEST_F(AutoLength, IsTheSameOnAllRanks) {
    run_ranks(2, [&](Comm& ranks) {
        Engine target(data_path("models/kjv-target"), kExact, ranks);
        SelfComm alone;
        Engine small(data_path("models/kjv-draft"), kExact, alone);
        GenerateStats own;
        const std::vector<int32_t> want = generate(*target, nullptr, request, own).at(0).ids;
        Level middle(target.device(), ranks, target.weights(), {.context = 512});
        Drafter draft("draft", small.device(), *small, request.sampling, 0, 2, kMost);
        DraftDistributions held(target.device(), middle, kMost);
        std::vector<GammaController> lengths(2);
        Speculate retrieval(
            draft, middle, request.sampling, 0,
            {.verifier = "retrieval", .level = 1, .wanted = kMost, .held = &held, .gamma = &lengths[1]});
        Speculate speculate(retrieval, *target, request.sampling, 0, {.gamma = &lengths[0]});
        SpecCosts measured;
        const auto ids = trireme::generate(
            speculate, nullptr, {.prompt = request.prompt, .max_new = request.max_new, .stops = {}}, own, {}, {}, {},
            [&] {
                const auto add = [&](const char* name, Level& level, MeasuredRows rows) {
                    measured.push_back(measure_costs(name, level, rows, request.sampling, request.prompt[0], ranks));
                };
                add("full", *target, MeasuredRows::kMany);
                add("retrieval", middle, MeasuredRows::kMany);
                add("draft", *small, MeasuredRows::kOne);
                set_costs(lengths, measured);
            });

        EXPECT_EQ(ids.at(0).ids, want);
        EXPECT_GT(own.warmup_ms, 0);
        std::string mine;
        for (const LevelCosts& level : measured) {
            for (const LevelCosts::Point& p : level.points)
                mine += fmt::format("{} {} {}\n", level.level, p.rows, p.ms);
        }
        const std::vector<std::string> all = ranks.gather_bytes(mine);
        EXPECT_EQ(all[0], all[1]);
    });
}

// While drafting is off, the draft only receives committed tokens; after 400 tokens new costs turn drafting on.
TEST_F(AutoLength, IsOffForHundredsOfRoundsAndOnAgain) {
    request.max_new = 700;
    const std::vector<int32_t> alone = plain();
    ASSERT_EQ(alone.size(), 700u);
    Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, kMost);
    GammaController lengths;
    lengths.set_costs(costs(0, 100), nullptr, 100);
    Speculate speculate(draft, *engine, request.sampling, 0, {.gamma = &lengths});
    int64_t tokens = 0;
    const auto on_later = [&](std::span<const int32_t> round) {
        tokens += static_cast<int64_t>(round.size());
        if (tokens <= 400) {
            EXPECT_EQ(speculate.stats().proposed, 0);
            EXPECT_EQ(draft_engine->length(), std::ssize(request.prompt))
                << "the draft computes tokens that it does not draft";
        }
        if (tokens == 400) lengths.set_costs(costs(100), nullptr, 1);
        return false;
    };

    EXPECT_EQ(ids_of(speculate, request, stats, on_later), alone);
    EXPECT_GT(speculate.stats().off, 390);
    EXPECT_GT(speculate.stats().accepted, 40);
}

TEST_F(AutoLength, DoesNotChangeWhereItIsFixed) {
    for (const int64_t length : {1, 6}) {
        Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, length);
        Speculate speculate(draft, *engine, request.sampling, 0);
        const auto ids = ids_of(speculate, request, stats);
        Drafter again("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, kMost);
        GammaController lengths(length);
        lengths.set_costs(costs(1, 1), nullptr, 1);
        Speculate asked(again, *engine, request.sampling, 0, {.gamma = &lengths});

        EXPECT_EQ(ids_of(asked, request, stats), ids);
        EXPECT_EQ(asked.stats().rounds, speculate.stats().rounds);
        EXPECT_EQ(asked.stats().proposed, speculate.stats().proposed);
        EXPECT_EQ(asked.stats().off, 0);
    }
}

TEST_F(AutoLength, MeasuresRisingRowsAndLeavesTheTextAlone) {
    engine->prefill(0, request.prompt);
    const int64_t before = engine->length();
    const LevelCosts many =
        measure_costs("full", *engine, MeasuredRows::kMany, request.sampling, request.prompt[0], comm);
    const LevelCosts one =
        measure_costs("draft", *engine, MeasuredRows::kOne, request.sampling, request.prompt[0], comm);

    EXPECT_EQ(engine->length(), before);
    EXPECT_EQ(engine->cache().staged().size(), 0);
    EXPECT_EQ(many.level, "full");
    ASSERT_GE(many.points.size(), 2u);
    EXPECT_EQ(one.points.size(), 1u);
    for (size_t i = 0; i < many.points.size(); ++i) {
        EXPECT_EQ(many.points[i].rows, int64_t{1} << i);
        EXPECT_GT(many.points[i].ms, 0);
    }
}

// At the end of the context there is room for one row only.
TEST_F(AutoLength, MeasuresWhatThereIsRoomFor) {
    const auto tokens = static_cast<int64_t>(request.prompt.size());
    Level small(engine.device(), comm, engine.weights(), {.context = tokens + 1});
    small.prefill(0, request.prompt);
    EXPECT_EQ(
        measure_costs("full", small, MeasuredRows::kMany, request.sampling, request.prompt[0], comm).points.size(), 1u);
}

}  // namespace
}  // namespace trireme::test
