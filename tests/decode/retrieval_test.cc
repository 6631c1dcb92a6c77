// Chains with a level over retrieved KV: the full model verifies its proposals, for every KV placement.

#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "decode/speculate.h"
#include "tests/decode/long_prompt.h"
#include "tests/decode/retrieving.h"

namespace trireme::test {
namespace {

using Retrieval = LongPrompt;

TEST_F(Retrieval, AloneIsPlainDecodingWhenGreedy) {
    for (const int64_t on_chip : {6, 3, 0}) {
        for (const int64_t budget : {8, 64, 256}) {
            Retrieving levels(engine, options(on_chip), {.budget = budget});
            Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 0, 1, 7);
            Speculate speculate(drafter, levels.target, request.sampling, 0);

            EXPECT_EQ(ids_of(speculate, request), plain) << on_chip << " " << budget;
            EXPECT_GT(speculate.stats().accepted, speculate.stats().proposed / 2);
        }
    }
}

TEST_F(Retrieval, OfTheWholeTextProposesWhatTheTargetSays) {
    for (const int64_t on_chip : {6, 0}) {
        Retrieving levels(engine, options(on_chip), {.budget = 2048});
        Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 0, 1, 7);
        Speculate speculate(drafter, levels.target, request.sampling, 0);

        EXPECT_EQ(ids_of(speculate, request), plain);
        EXPECT_EQ(speculate.stats().accepted, speculate.stats().proposed);
    }
}

// Its distribution is then the target's, except for the order of sums.
TEST_F(Retrieval, OfTheWholeTextProposesWhatTheTargetDraws) {
    request.sampling = {.temperature = 0.8};
    Retrieving levels(engine, options(3), {.budget = 2048});
    Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 0, 1, 7);
    Speculate speculate(drafter, levels.target, request.sampling, 0);
    ids_of(speculate, request);
    EXPECT_GT(speculate.stats().proposed, 50);
    EXPECT_GE(speculate.stats().accept_rate(), 0.98);
}

TEST_F(Retrieval, BetweenDraftAndTargetIsPlainDecodingWhenGreedy) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    for (const int64_t on_chip : {6, 2}) {
        for (const int64_t length : {3, 12}) {
            Retrieving levels(engine, options(on_chip), {.budget = 64});
            Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 2, 2);
            DraftDistributions held(engine.device(), levels.middle, length);
            Speculate middle(draft, levels.middle, request.sampling, 0,
                             {.verifier = "retrieval", .level = 1, .wanted = length, .held = &held});
            Speculate speculate(middle, levels.target, request.sampling, 0);

            EXPECT_EQ(ids_of(speculate, request), plain) << on_chip << " " << length;
            EXPECT_STREQ(speculate.name(), "draft+retrieval+full");
            EXPECT_GT(middle.stats().accepted, 0);
        }
    }
}

TEST_F(Retrieval, MayBeSettledWhereNothingHasBeenSaid) {
    Retrieving levels(engine, options(6), {.budget = 64});
    levels.target.prefill(0, request.prompt);
    Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 0, 1, 7);
    drafter.prefill(request.prompt, {});
    std::vector<std::vector<int32_t>> proposals;
    for (const bool settled : {false, true}) {
        drafter.begin(0);
        if (settled) drafter.commit();
        drafter.resolve({}, plain[0]);
        std::vector<int32_t>& tokens = proposals.emplace_back();
        for (const Proposed& p : drafter.propose(7)) tokens.push_back(p.token);
    }
    EXPECT_EQ(proposals[0].size(), 7u);
    EXPECT_EQ(proposals[1], proposals[0]);
}

// Re-selection in every round, in every third one, or never; some prompts are shorter than the tokens that are always
// seen.
TEST_F(Retrieval, WhenItChoosesChangesNoToken) {
    for (const int64_t every : {int64_t{1}, int64_t{3}, RetrievalShape::kNever}) {
        for (const size_t prompt : {size_t{1}, size_t{100}, size_t{263}, request.prompt.size()}) {
            PlainRequest r = request;
            r.prompt.resize(prompt);
            const std::vector<int32_t> want = generate(*engine, tokenizer.get(), r, stats).at(0).ids;
            Retrieving levels(engine, options(3), {.budget = 32, .every = every});
            Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 0, 1, 5);
            Speculate speculate(drafter, levels.target, request.sampling, 0);
            EXPECT_EQ(ids_of(speculate, r), want) << every << " " << prompt;
        }
    }
}

// Sample i depends on the seed and i alone: it does not see what an earlier sample selected. Otherwise the number of
// rounds would differ. Greedy tokens would not show it, because proposals do not change them.
TEST_F(Retrieval, SamplesBeginWithWhatThePromptChose) {
    request.sampling = {.temperature = 0.8};
    for (const int64_t every : {int64_t{1}, int64_t{2}, RetrievalShape::kNever}) {
        const RetrievalShape shape = {.budget = 32, .every = every, .comes_back = true};
        std::vector<std::vector<int32_t>> alone;
        for (const bool two_before : {false, true}) {
            Retrieving levels(engine, options(3), shape);
            Drafter drafter("retrieval", engine.device(), levels.middle, request.sampling, 5, 1, 5);
            Speculate speculate(drafter, levels.target, request.sampling, 5);
            alone.push_back(rounds_of_sample_2(speculate, two_before));
        }
        EXPECT_EQ(alone[0], alone[1]) << every;
    }
}

}  // namespace
}  // namespace trireme::test
