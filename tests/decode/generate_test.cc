#include "decode/generate.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "runtime/error.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

class Generate : public KjvPrompt {
  protected:
    std::vector<Continuation> run() { return generate(*engine, tokenizer.get(), request, stats); }
};

TEST_F(Generate, CountsTokensAndStopsAtTheLimit) {
    const Continuation c = run().at(0);

    EXPECT_EQ(c.ids.size(), 24u);
    EXPECT_EQ(c.stop, StopReason::kLimit);
    EXPECT_EQ(stats.prompt_tokens, static_cast<int64_t>(request.prompt.size()));
    EXPECT_EQ(stats.new_tokens, 24);
    EXPECT_EQ(stats.rounds, 24);
    EXPECT_GT(stats.ttft_ms, 0);
    EXPECT_GT(stats.tpot_ms, 0);
}

TEST_F(Generate, StreamsExactlyTheText) {
    std::string streamed;
    std::vector<int32_t> ids;
    const auto out =
        generate(*engine, tokenizer.get(), request, stats, [&](int64_t, int32_t id, std::string_view text) {
            if (id >= 0) ids.push_back(id);
            streamed += text;
        });

    EXPECT_EQ(streamed, out.at(0).text);
    EXPECT_EQ(ids, out.at(0).ids);
    EXPECT_FALSE(streamed.empty());
}

TEST_F(Generate, EndsAtAnEosAndLeavesItOutOfTheText) {
    const Continuation whole = run().at(0);
    request.eos = {whole.ids.at(5)};
    const auto first = std::find(whole.ids.begin(), whole.ids.end(), whole.ids.at(5)) - whole.ids.begin();

    const Continuation c = run().at(0);

    EXPECT_EQ(c.stop, StopReason::kEos);
    EXPECT_EQ(c.ids, std::vector<int32_t>(whole.ids.begin(), whole.ids.begin() + first + 1));
    EXPECT_EQ(whole.text.compare(0, c.text.size(), c.text), 0);
    EXPECT_LT(c.text.size(), whole.text.size());
}

TEST_F(Generate, EndsBeforeAStopString) {
    const Continuation whole = run().at(0);
    const std::string stop = whole.text.substr(whole.text.size() / 2, 4);
    request.stop = {stop};

    const Continuation c = run().at(0);

    EXPECT_EQ(c.stop, StopReason::kStopString);
    EXPECT_EQ(c.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST_F(Generate, EndsWithTheContext) {
    EngineOptions options = kExact;
    options.context = static_cast<int64_t>(request.prompt.size()) + 7;
    Engine small(data_path("models/kjv-target"), options, comm);
    request.max_new = -1;

    const Continuation c = generate(*small, tokenizer.get(), request, stats).at(0);

    EXPECT_EQ(c.stop, StopReason::kContext);
    EXPECT_EQ(c.ids.size(), 7u);
}

TEST_F(Generate, GivesNothingForZeroTokens) {
    request.max_new = 0;
    const Continuation c = run().at(0);
    EXPECT_TRUE(c.ids.empty());
    EXPECT_TRUE(c.text.empty());
}

TEST_F(Generate, RefusesPromptsItCannotRun) {
    const auto code = [&] {
        try {
            run();
            return Exit::kOk;
        } catch (const Error& e) {
            return e.code();
        }
    };
    const auto good = request.prompt;
    request.prompt = {};
    EXPECT_EQ(code(), Exit::kConfig);
    request.prompt = {1, 1024};
    EXPECT_EQ(code(), Exit::kConfig);
    request.prompt = {1, -1};
    EXPECT_EQ(code(), Exit::kConfig);
    request.prompt.assign(static_cast<size_t>(engine->context()), 5);
    EXPECT_EQ(code(), Exit::kConfig);
    request.prompt = good;
    EXPECT_EQ(code(), Exit::kOk);  // refusals have not changed the engine
}

// Sample i depends only on (seed, i), not on the number of samples or on earlier ones.
TEST_F(Generate, SamplesAreIndependentOfEachOther) {
    request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
    request.seed = 77;
    request.num_samples = 3;
    const auto three = run();
    request.num_samples = 2;
    const auto two = run();
    request.seed = 78;
    const auto other = run();

    EXPECT_EQ(two[0].ids, three[0].ids);
    EXPECT_EQ(two[1].ids, three[1].ids);
    EXPECT_NE(three[0].ids, three[1].ids);
    EXPECT_NE(three[1].ids, three[2].ids);
    EXPECT_NE(other[0].ids, two[0].ids);
}

TEST_F(Generate, TheSeedGivesTheSameTokensOnAnyThreadCount) {
    request.sampling = {.temperature = 0.9};
    request.seed = 5;
    const auto one = run();
    Engine two(data_path("models/kjv-target"), kExact, comm, 2);
    EXPECT_EQ(generate(*two, nullptr, request, stats).at(0).ids, one.at(0).ids);
}

TEST_F(Generate, RanksDrawTheSameTokensWithoutABroadcast) {
    request.sampling = {.temperature = 1.2, .top_k = 50};
    std::vector<std::vector<int32_t>> drawn(3);
    run_ranks(3, [&](Comm& ranks) {
        Engine mine(data_path("models/kjv-target"), kExact, ranks);
        GenerateStats s;
        drawn[static_cast<size_t>(ranks.rank())] = generate(*mine, nullptr, request, s).at(0).ids;
    });
    EXPECT_EQ(drawn[1], drawn[0]);
    EXPECT_EQ(drawn[2], drawn[0]);
}

// Greedy tokens, perplexity and log probabilities of the trained models, from transformers in fp32.
TEST_F(Generate, ScoreIsTheLogProbabilityOfEachToken) {
    const std::vector<int32_t> ids = tokenizer->encode("In the beginning God created the heaven and the earth.", true);
    const Score s = score(*engine, ids);

    ASSERT_EQ(s.logprobs.size(), ids.size() - 1);
    engine->truncate(0, 0);
    engine->prefill(0, std::span(ids).first(1));
    double total = 0;
    for (size_t i = 1; i < ids.size(); ++i) {
        const Matrix<float> m = engine->logits().host().as<float>();
        double sum = 0;
        for (int64_t c = 0; c < m.cols; ++c) sum += std::exp(static_cast<double>(m(0, c)));
        const double want = static_cast<double>(m(0, ids[i])) - std::log(sum);
        EXPECT_NEAR(s.logprobs[i - 1], want, 1e-4);  // prefill and decode sum in different orders
        total += s.logprobs[i - 1];
        engine.step(ids[i]);
    }
    EXPECT_NEAR(s.perplexity(), std::exp(-total / static_cast<double>(ids.size() - 1)), 1e-9);
}

}  // namespace
}  // namespace trireme::test
