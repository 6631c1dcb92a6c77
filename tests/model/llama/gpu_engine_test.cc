// The whole engine over the GPU's kernels, on the host (simt) or on a GPU: its results agree with the CPU's.

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tests/model/llama/engine_device.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"
#include "tests/support/near.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

class GpuEngine : public testing::TestWithParam<std::string> {};

void gives_the_cpus_greedy_tokens(const std::string& model, int ranks) {
    const Greedy cpu = greedy(model, 1, 1), gpu = greedy(model, ranks, 1, engine_device());

    EXPECT_EQ(gpu.tokens, cpu.tokens);
    // Sums in another order: as between ranks (tests/model/llama/ranks_test.cc).
    const double bound = 4 * eps_of(DType::kF32) * std::sqrt(512.0 * 2 * 6) * largest(cpu.logits);
    EXPECT_TRUE(near(std::span<const float>(gpu.logits), std::span<const float>(cpu.logits), bound));
}

TEST_P(GpuEngine, GivesTheCpusGreedyTokens) {
    gives_the_cpus_greedy_tokens(GetParam(), 1);
}

TEST_P(GpuEngine, GivesTheCpusGreedyTokensOnTwoRanks) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    gives_the_cpus_greedy_tokens(GetParam(), 2);
}

TEST_P(GpuEngine, StaysCloseIn16Bits) {
    const EngineOptions half{.weights = DType::kF16, .k_type = DType::kF16, .v_type = DType::kF16};
    const Greedy cpu = greedy(GetParam(), 1, 1, "cpu", half), gpu = greedy(GetParam(), 1, 1, engine_device(), half);
    // Inputs of products are rounded to 16 bits: half a step each, in a random walk over two products per layer, of 6
    // layers, 4 sigma.
    const double bound = 4 * eps_of(DType::kF16) / 2 * std::sqrt(2.0 * 2 * 6) * largest(cpu.logits);
    EXPECT_TRUE(near(std::span<const float>(gpu.logits), std::span<const float>(cpu.logits), bound));
}

// Ten kernels for each of the six layers, and those of the embedding and the logits: no rounding, addition or SwiGLU is
// a kernel of its own.
TEST(GpuKernels, OfADecodeForward) {
    const std::map<const char*, uint64_t> want = {
        {"embed", 1},     {"rmsnorm", 1},         {"add_rmsnorm", 12},  {"matmul", 19},
        {"rope", 6},      {"kv_stage", 6},        {"add", 0},           {"round_rows", 0},
        {"attention", 6}, {"attention_merge", 6}, {"matmul_swiglu", 6}, {"swiglu", 0}};
    for (const DType type : {DType::kF16, DType::kBF16}) {
        run_ranks(1, [&](Comm& comm) {
            Engine engine(data_path("models/kjv-target"), {.weights = type, .context = 300, .graphs = false}, comm, 1,
                          engine_device());
            engine->prefill(0, std::vector<int32_t>{5, 9, 14});
            std::map<const char*, uint64_t> before = want, got = want;
            for (auto& [name, count] : before) count = engine->stream().spent(name).count;
            engine.step(7);
            for (auto& [name, count] : got) count = engine->stream().spent(name).count - before[name];
            for (const auto& [name, count] : want) EXPECT_EQ(got[name], count) << name << ", " << name_of(type);
        });
    }
}

// Weights in blocks: exact values on 1 and 3 ranks; values rounded to f16 as when they are widened.
TEST(GpuBlocks, GiveTheCpusGreedyTokens) {
    EngineOptions blocks = kExact, half{.weights = DType::kF16, .blocks = true, .activations = ActivationType::kF16},
                  widened = half;
    blocks.blocks = true;
    widened.blocks = false;
    for (const char* model :
         {"gguf/q4_k_m.gguf", "gguf/q3_k.gguf", "gguf/q5_1.gguf", "gguf/iq4_xs.gguf", "gguf/phi3_q4_0.gguf",
          "gguf/qwen2_q8_0.gguf", "gguf/q8_0_mixed.gguf", "packed/awq", "packed/fp8_block"}) {
        const Greedy cpu = greedy(model, 1, 1, "cpu", blocks);
        const double bound = 4 * eps_of(DType::kF32) * std::sqrt(512.0 * 2 * 6) * largest(cpu.logits);
        for (const int ranks : {1, 3}) {
            if (ranks > 1 && !ranks_as_threads()) continue;
            const Greedy gpu = greedy(model, ranks, 1, engine_device(), blocks);
            EXPECT_EQ(gpu.tokens, cpu.tokens) << model << " " << ranks << " ranks";
            EXPECT_TRUE(near(std::span<const float>(gpu.logits), std::span<const float>(cpu.logits), bound))
                << model << " " << ranks << " ranks";
        }
        // The embedding alone is not rounded to f16 in blocks: half a step, once.
        const Greedy wide = greedy(model, 1, 1, engine_device(), widened);
        const Greedy kept = greedy(model, 1, 1, engine_device(), half);
        EXPECT_TRUE(near(std::span<const float>(kept.logits), std::span<const float>(wide.logits),
                         4 * eps_of(DType::kF16) / 2 * std::sqrt(2.0 * 2 * 6) * largest(wide.logits)))
            << model;
    }
}

// A graph's grids are made for the whole context; it reads the inputs of its rows from device memory only.
std::vector<std::vector<float>> decoded(const std::string& model, int ranks, bool graphs, int64_t prompt_tokens) {
    std::vector<std::vector<float>> logits;
    run_ranks(ranks, [&](Comm& comm) {
        const EngineOptions options{.weights = DType::kF16, .context = 600, .graphs = graphs};
        Engine engine(data_path(model), options, comm, 1, engine_device());
        std::vector<int32_t> prompt(static_cast<size_t>(prompt_tokens));
        for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 31 % 100 + 5);
        engine->prefill(0, prompt);
        std::vector<std::vector<float>> mine;
        for (int i = 0; i < 4; ++i) mine.push_back(engine.step(i + 7));
        // Two rows, of which one is accepted; then one row again, with the graph recorded before.
        for (int i = 0; i < 3; ++i) {
            const auto at = static_cast<int32_t>(engine->length());
            engine->forward(
                std::vector<Row>{{.token = 9, .position = at}, {.token = 11, .position = at + 1, .parent = 0}});
            const Matrix<float> two = engine->logits().host().as<float>();
            std::vector<float>& both = mine.emplace_back(two.row(0), two.row(0) + two.cols);
            both.insert(both.end(), two.row(1), two.row(1) + two.cols);
            engine->keep(0, std::vector<int32_t>{0});
        }
        // A row after two staged rows uses the same graph as a row after none.
        const auto at = static_cast<int32_t>(engine->length());
        engine->forward(std::vector<Row>{{.token = 9, .position = at}, {.token = 11, .position = at}});
        engine->extend(std::vector<Row>{{.token = 13, .position = at + 1, .parent = 1}});
        const Matrix<float> grown = engine->logits().host().as<float>();
        mine.emplace_back(grown.row(0), grown.row(0) + grown.cols);
        engine->keep(0, std::vector<int32_t>{1, 2});
        mine.push_back(engine.step(40));
        engine->truncate(0, prompt_tokens - 3);
        mine.push_back(engine.step(41));
        if (comm.rank() == 0) logits = std::move(mine);
    });
    return logits;
}

void graphs_change_no_bit(int ranks) {
    for (const int64_t prompt : {5, 254}) {  // a step crosses into the second tile
        const auto plain = decoded("tiny/heads9-kv3", ranks, false, prompt);
        EXPECT_EQ(decoded("tiny/heads9-kv3", ranks, true, prompt), plain) << prompt;
    }
}

// Logits of chains of these lengths, each appended to the same prompt.
std::vector<std::vector<float>> decoded_chains(int ranks, bool graphs, const std::vector<int64_t>& lengths) {
    std::vector<std::vector<float>> logits;
    run_ranks(ranks, [&](Comm& comm) {
        const EngineOptions options{.weights = DType::kF16, .context = 300, .graphs = graphs};
        Engine engine(data_path("tiny/heads9-kv3"), options, comm, 1, engine_device());
        engine->prefill(0, std::vector<int32_t>{5, 9, 14, 60, 33});
        std::vector<std::vector<float>> mine;
        for (const int64_t n : lengths) {
            std::vector<Row> rows;
            for (int32_t i = 0; i < n; ++i) {
                rows.push_back({.token = (i * 7 + 3) % 100, .position = 5 + i, .parent = i - 1});
            }
            engine->forward(rows);
            const Matrix<float> m = engine->logits().host().as<float>();
            for (int64_t r = 0; r < m.rows; ++r) mine.emplace_back(m.row(r), m.row(r) + m.cols);
        }
        if (comm.rank() == 0) logits = std::move(mine);
    });
    return logits;
}

TEST(GpuGraphs, OfASizeServeEveryNumberOfRowsUpToIt) {
    // The first forward of each size runs op by op, the next one is recorded; both have the fewest rows of that size.
    std::vector<int64_t> lengths;
    for (int64_t n = 1; n <= kMaxRows; n = graph_rows(n) + 1) lengths.insert(lengths.end(), {n, n, graph_rows(n)});
    EXPECT_EQ(decoded_chains(1, true, lengths), decoded_chains(1, false, lengths));
    if (!ranks_as_threads()) return;  // ranks are processes on a GPU
    const std::vector<int64_t> few = {3, 3, 4, 5, 7, 8};
    EXPECT_EQ(decoded_chains(2, true, few), decoded_chains(2, false, few));
}

TEST(GpuGraphs, AreOfTenSizes) {
    std::vector<int64_t> sizes;
    for (int64_t n = 1; n <= kMaxRows; ++n) {
        const int64_t size = graph_rows(n);
        EXPECT_GE(size, n);
        if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
    }
    EXPECT_EQ(sizes, (std::vector<int64_t>{1, 2, 4, 8, 12, 18, 24, 32, 48, 64}));
}

TEST(GpuGraphs, ChangeNoBit) {
    graphs_change_no_bit(1);
}

TEST(GpuGraphs, ChangeNoBitOnTwoRanks) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    graphs_change_no_bit(2);
}

INSTANTIATE_TEST_SUITE_P(Models, GpuEngine,
                         testing::Values("models/kjv-draft", "tiny/heads9-kv3", "tiny/gqa4-bf16", "tiny/qwen2-tied",
                                         "tiny/qwen2-window", "tiny/qwen3-norms", "tiny/llama-bias",
                                         "tiny/mistral-window", "tiny/phi3-long", "gguf/phi3.gguf"),
                         [](const auto& param) { return case_name(param.param); });

}  // namespace
}  // namespace trireme::test
