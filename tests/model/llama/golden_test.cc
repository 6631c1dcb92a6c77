// Logits against transformers' (fp32, eager attention) for checkpoints of every rope scaling, spelling and type.

#include "tests/support/golden.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dist/self_comm.h"
#include "tests/support/engine.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

// Issue "Plain decoding": 2e-5 of the largest logit in f32. transformers' own fp32 error against fp64 is up to 4e-6.
constexpr double kF32 = 2e-5;
// Families beyond plain Llama, and weights in blocks: 3e-6.
constexpr double kNewer = 3e-6;
double f32_bound(const LlamaConfig& c) {
    return c.family->model_type == "llama" && !c.qkv_bias ? kF32 : kNewer;
}

std::vector<float> rows_of(const std::vector<float>& logits, const GoldenTensor& rows, int64_t cols) {
    std::vector<float> out;
    for (const int32_t r : rows.i32) out.insert(out.end(), logits.begin() + r * cols, logits.begin() + (r + 1) * cols);
    return out;
}

testing::AssertionResult close(const std::vector<float>& got, const std::vector<float>& want, double relative) {
    return near(std::span(got), std::span(want), relative * largest(want));
}

// In 16 bits every weight, key and value is off by at most half a unit in the last place, u = eps / 2. The longest path
// of a layer has seven roundings of operands in a row (x into qkv, k, v, wo, gate/up, down, and the weights' own). They
// are independent: each has an rms error of u / sqrt(3), amplified by at most the ratio of residual to logits, about 4
// here. The largest of some 10^4 logits is 4 sigma out: 4 * 4 * u * sqrt(7 layers / 3).
double bound_16(DType t, int64_t layers) {
    return 16 * eps_of(t) / 2 * std::sqrt(7.0 * static_cast<double>(layers) / 3);
}

// As bound_16, with activations that are off by half of 1/127 of the largest of 32, which is about three times their
// rms.
double bound_8(int64_t layers) {
    return 16 * 3.0 / 127 / 2 * std::sqrt(7.0 * static_cast<double>(layers) / 3);
}

struct Case {
    std::string model, golden;
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.model;
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const std::string& name : data_entries("tiny")) {
        all.push_back({"tiny/" + name, "tiny/" + name + "/golden.safetensors"});
    }
    for (const std::string& name : data_entries("packed")) {
        all.push_back({"packed/" + name, "packed/" + name + "/golden.safetensors"});
    }
    for (const std::string& name : data_entries("gguf", ".gguf")) {
        all.push_back({"gguf/" + name, "gguf/" + name.substr(0, name.size() - 5) + ".golden.safetensors"});
    }
    return all;
}

class GoldenLogits : public testing::TestWithParam<Case> {
  protected:
    Golden golden = read_golden(data_path(GetParam().golden));
    SelfComm comm;
    int64_t n() const { return static_cast<int64_t>(golden.at("ids").i32.size()); }
    EngineOptions options(EngineOptions o = kExact) const {
        o.context = n();  // some checkpoints are used beyond their trained length on purpose
        return o;
    }
};

TEST_P(GoldenLogits, OfThePromptAreTransformers) {
    Engine engine(data_path(GetParam().model), options(), comm);

    const std::vector<float> got = engine.prefill_logits(golden.at("ids").i32);

    EXPECT_TRUE(close(rows_of(got, golden.at("rows"), engine->config().vocab), golden.at("logits").f32,
                      f32_bound(engine->config())));
}

std::vector<Case> quantised() {
    std::vector<Case> all = cases();
    std::erase_if(all, [](const Case& c) {
        return !WeightFormat(*open_model(data_path(c.model)), ActivationType::kF32).has_blocks();
    });
    return all;
}

class BlockLogits : public GoldenLogits {
  protected:
    /// 3e-6, and twice transformers' own distance from float64 where it is recorded (up to 4e-6): ours may be as far.
    double bound() const {
        const std::string& model = GetParam().model;
        if (!model.starts_with("gguf/")) return kNewer;
        const auto facts = nlohmann::json::parse(read_text(data_path("gguf/golden.json")));
        const std::string name = model.substr(5, model.size() - 10);
        return kNewer + (facts.contains(name) ? 2 * facts[name].at("hf_error_vs_f64").get<double>() : 0);
    }
};

// Weights that remain in the blocks of the file, with exact values (f32) and with all other products of this CPU.
TEST_P(BlockLogits, AreTransformers) {
    const auto source = open_model(data_path(GetParam().model));
    const std::vector<int32_t>& ids = golden.at("ids").i32;
    for (const ActivationType as : kActivationTypes) {
        if (!multiplies("cpu", as)) continue;
        EngineOptions in_blocks = options();
        in_blocks.activations = as;
        in_blocks.blocks = true;
        const double most = as == ActivationType::kF32  ? bound()
                            : as == ActivationType::kQ8 ? bound_8(source->config().n_layers)
                                                        : bound_16(DType::kBF16, source->config().n_layers);
        Engine prompt(data_path(GetParam().model), in_blocks, comm),
            steps(data_path(GetParam().model), in_blocks, comm);
        const int64_t vocab = prompt->config().vocab;

        const std::vector<float> got = prompt.prefill_logits(ids);
        std::vector<float> stepped = steps.prefill_logits(std::span(ids).first(1));
        for (size_t i = 1; i < ids.size(); ++i) {
            const std::vector<float> row = steps.step(ids[i]);
            stepped.insert(stepped.end(), row.begin(), row.end());
        }

        EXPECT_TRUE(close(rows_of(got, golden.at("rows"), vocab), golden.at("logits").f32, most)) << name_of(as);
        EXPECT_TRUE(close(rows_of(stepped, golden.at("rows"), vocab), golden.at("logits").f32, most)) << name_of(as);
    }
}

TEST_P(GoldenLogits, TokenByTokenAreTransformers) {
    const bool dynamic = golden.contains("logits_steps");
    Engine engine(data_path(GetParam().model), options(), comm);
    const std::vector<int32_t>& ids = golden.at("ids").i32;
    const int64_t cols = engine->config().vocab;
    // Dynamic scaling depends on which tokens were prompt and which were generated; the others do not.
    size_t prompt = ids.size() / 2;
    if (dynamic) {
        const auto facts = nlohmann::json::parse(read_text(data_path(GetParam().model + "/golden.json")));
        prompt = facts.at("prompt_len").get<size_t>();
    }

    std::vector<float> got;
    if (prompt > 0) got = engine.prefill_logits(std::span(ids).first(prompt));
    for (size_t i = prompt; i < ids.size(); ++i) {
        const std::vector<float> row = engine.step(ids[i]);
        got.insert(got.end(), row.begin(), row.end());
    }

    const auto& want = golden.at(dynamic ? "logits_steps" : "logits").f32;
    EXPECT_TRUE(close(rows_of(got, golden.at("rows"), cols), want, f32_bound(engine->config())));
}

TEST_P(GoldenLogits, InSixteenBitsAreWithinTheDerivedBound) {
    for (const DType type : {DType::kF16, DType::kBF16}) {
        Engine engine(data_path(GetParam().model), options({.weights = type, .k_type = type, .v_type = type}), comm);

        const std::vector<float> got = engine.prefill_logits(golden.at("ids").i32);

        EXPECT_TRUE(close(rows_of(got, golden.at("rows"), engine->config().vocab), golden.at("logits").f32,
                          bound_16(type, engine->config().n_layers)))
            << name_of(type);
    }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, BlockLogits, testing::ValuesIn(quantised()),
                         [](const auto& param) { return case_name(param.param.model); });
INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenLogits, testing::ValuesIn(cases()),
                         [](const auto& param) { return case_name(param.param.model); });

}  // namespace
}  // namespace trireme::test
