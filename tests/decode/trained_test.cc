// Greedy tokens, log probabilities and perplexity of trained models against transformers in fp32.
// TRIREME_DEMO_MODEL names the demo model's .gguf; without it those cases are reported as skipped.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dist/self_comm.h"
#include "tests/decode/plain_run.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"
#include "tests/support/near.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

/// A model and the folder of its goldens.
struct Trained {
    std::string name, goldens;

    std::filesystem::path path() const {
        const char* demo = std::getenv("TRIREME_DEMO_MODEL");
        return name == "demo" ? std::filesystem::path(demo ? demo : "") : data_path(goldens);
    }
    nlohmann::json facts() const { return nlohmann::json::parse(read_text(data_path(goldens + "/golden.json"))); }
};

void PrintTo(const Trained& t, std::ostream* out) {
    *out << t.name;
}

class TrainedModel : public testing::TestWithParam<Trained> {
  protected:
    void SetUp() override {
        if (GetParam().path().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";
    }
    SelfComm comm;
};

EngineOptions sixteen(DType type) {
    return {.weights = type, .k_type = DType::kF16, .v_type = DType::kF16, .context = 2048};
}

EngineOptions exact() {
    EngineOptions o = kExact;
    o.context = 2048;
    return o;
}

TEST_P(TrainedModel, GivesTransformersGreedyTokens) {
    Engine engine(GetParam().path(), exact(), comm, 2);
    GenerateStats stats;
    const nlohmann::json facts = GetParam().facts();
    ASSERT_GE(facts.at("greedy").size(), 3u);
    for (const auto& prompt : facts.at("greedy")) {
        PlainRequest request{
            .prompt = prompt.at("ids").get<std::vector<int32_t>>(), .max_new = 64, .sampling = {.temperature = 0}};

        const auto out = generate(*engine, nullptr, request, stats);

        EXPECT_EQ(out.at(0).ids, prompt.at("tokens").get<std::vector<int32_t>>())
            << "prompt of " << request.prompt.size() << " ids";
    }
}

// Issue "Plain decoding": perplexity within 0.1 % in f32, 0.5 % in 16 bits; logits within 2e-5 of the largest in f32.
TEST_P(TrainedModel, GivesTransformersLogProbabilities) {
    const Golden golden = read_golden(data_path(GetParam().goldens + "/golden.safetensors"));
    const double want = GetParam().facts().at("score").at("perplexity");
    const std::vector<int32_t>& ids = golden.at("ids").i32;
    Engine engine(GetParam().path(), exact(), comm, 2);
    std::vector<float> rows;

    const Score s = score(*engine, ids, INT64_MAX, [&](int64_t position, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (const int32_t r : golden.at("rows").i32) {
            if (r >= position && r < position + m.rows)
                rows.insert(rows.end(), m.row(r - position), m.row(r - position) + m.cols);
        }
    });

    EXPECT_NEAR(s.perplexity(), want, 1e-3 * want);
    double largest = 0;
    for (const float x : golden.at("logits").f32) largest = std::max(largest, std::fabs(static_cast<double>(x)));
    EXPECT_TRUE(near(std::span<const float>(rows), std::span<const float>(golden.at("logits").f32), 2e-5 * largest));
    // A log probability is the difference of two numbers that each have this error.
    EXPECT_TRUE(
        near(std::span<const double>(s.logprobs), std::span<const float>(golden.at("logprobs").f32), 4e-5 * largest));
    std::printf("%s f32: perplexity %.6f, transformers %.6f\n", GetParam().name.c_str(), s.perplexity(), want);
}

TEST_P(TrainedModel, LosesLittleIn16Bits) {
    const Golden golden = read_golden(data_path(GetParam().goldens + "/golden.safetensors"));
    const double want = GetParam().facts().at("score").at("perplexity");
    for (const DType type : {DType::kF16, DType::kBF16}) {
        Engine engine(GetParam().path(), sixteen(type), comm, 2);

        const Score s = score(*engine, golden.at("ids").i32);

        EXPECT_NEAR(s.perplexity(), want, 5e-3 * want) << name_of(type);
        std::printf("%s %s: perplexity %.6f, transformers %.6f\n", GetParam().name.c_str(),
                    std::string(name_of(type)).c_str(), s.perplexity(), want);
    }
}

// Issue "Coded KV": perplexity within 0.1 % of an f16 cache.
TEST_P(TrainedModel, LosesLittleWithA8BitCache) {
    const std::vector<int32_t> ids = read_golden(data_path(GetParam().goldens + "/golden.safetensors")).at("ids").i32;
    EngineOptions o = sixteen(DType::kF16);
    const double wide = score(*Engine(GetParam().path(), o, comm, 2), ids).perplexity();
    o.k_type = o.v_type = DType::kQ8_0;
    const double got = score(*Engine(GetParam().path(), o, comm, 2), ids).perplexity();

    EXPECT_NEAR(got, wide, 1e-3 * wide);
    EXPECT_NE(got, wide);
    std::printf("%s: perplexity %.6f with a cache of f16, %.6f of q8_0\n", GetParam().name.c_str(), wide, got);
}

INSTANTIATE_TEST_SUITE_P(Models, TrainedModel,
                         testing::Values(Trained{"kjv_target", "models/kjv-target"},
                                         Trained{"kjv_draft", "models/kjv-draft"}, Trained{"demo", "smollm2"}),
                         [](const auto& param) { return param.param.name; });

// Perplexity of decode steps, whose products of weights in blocks round activations. The fastest ones stay within 0.3 %
// of f32; 8 bits do not have to.
TEST(DemoModel, DecodesQuantisedWeightsAsExactActivationsDo) {
    const char* demo = std::getenv("TRIREME_DEMO_MODEL");
    if (demo == nullptr) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";
    const std::vector<int32_t> ids = read_golden(data_path("smollm2/golden.safetensors")).at("ids").i32;
    constexpr size_t kTokens = 600;
    ASSERT_GT(ids.size(), kTokens);
    SelfComm comm;
    double exactly = 0;
    for (const ActivationType as : kActivationTypes) {
        if (!multiplies("cpu", as)) continue;
        EngineOptions o = exact();
        o.blocks = true;
        o.activations = as;
        Engine engine(demo, o, comm, 2);
        double sum = 0;
        for (size_t i = 0; i < kTokens; ++i) {
            const std::vector<float> logits = engine.step(ids[i]);
            double norm = 0;
            for (const float x : logits) norm += std::exp(static_cast<double>(x));
            sum += std::log(norm) - static_cast<double>(logits[static_cast<size_t>(ids[i + 1])]);
        }
        const double perplexity = std::exp(sum / kTokens);
        if (as == ActivationType::kF32) exactly = perplexity;
        std::printf("demo %s: perplexity of %zu decoded tokens %.5f, of f32 %.5f\n", std::string(name_of(as)).c_str(),
                    kTokens, perplexity, exactly);
        EXPECT_NEAR(perplexity, exactly, (as == ActivationType::kQ8 ? 0.02 : 0.003) * exactly) << name_of(as);
    }
}

// 9 heads and 3 KV heads on 2, 3, 4 and 9 ranks: uneven heads, boundary KV heads on two ranks.
TEST(DemoModel, GivesTheSameGreedyTokensOnEveryRankCount) {
    const Trained demo{"demo", "smollm2"};
    if (demo.path().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";
    const auto prompts = demo.facts().at("greedy");
    const std::vector<int32_t> ids = prompts.at(3).at("ids");  // 240 ids
    const std::vector<int32_t> tokens = prompts.at(3).at("tokens");
    std::vector<float> one;
    for (const int ranks : {1, 2, 3, 4, 9}) {
        run_ranks(ranks, [&](Comm& comm) {
            EngineOptions options = kExact;
            options.context = 512;
            Engine engine(demo.path(), options, comm);
            GenerateStats stats;
            const PlainRequest request{.prompt = ids, .max_new = 64, .sampling = {.temperature = 0}};
            const auto out = generate(*engine, nullptr, request, stats);
            engine->truncate(0, 0);
            engine->prefill(0, ids);
            const Matrix<float> m = engine->logits().host().as<float>();
            if (comm.rank() != 0) return;
            EXPECT_EQ(out.at(0).ids, tokens) << ranks << " ranks";
            const std::vector<float> last(m.row(0), m.row(0) + m.cols);
            if (ranks == 1) one = last;
            double largest = 0, worst = 0;
            for (size_t i = 0; i < one.size(); ++i) {
                largest = std::max(largest, std::fabs(static_cast<double>(one[i])));
                worst = std::max(worst, std::fabs(static_cast<double>(one[i]) - static_cast<double>(last[i])));
            }
            // As in ranks_test: sums of at most 1,536 products, two of them a layer on a path of 30 layers, 4 sigma.
            EXPECT_LE(worst, 4 * eps_of(DType::kF32) * std::sqrt(1536.0 * 2 * 30) * largest) << ranks << " ranks";
            std::printf("%d ranks: max |logit - logit of 1 rank| = %.3g of max |logit| %.3g\n", ranks, worst, largest);
        });
    }
}

}  // namespace
}  // namespace trireme::test
