#pragma once
/// A request on a small random model, and the placement of its KV.

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/llama/engine_device.h"
#include "tests/support/engine.h"
#include "tests/support/near.h"
#include "tests/support/random_model.h"
#include "tests/support/ranks.h"

namespace trireme::test {

/// A tile is 16 KiB in f16; positions up to 16 K.
inline const RandomShape kShape{.name = "residency",
                                .layers = 5,
                                .dim = 64,
                                .heads = 4,
                                .kv_heads = 1,
                                .head_dim = 16,
                                .ffn = 96,
                                .vocab = 96,
                                .context = 16384};
/// A model in which some layers read the keys and values of another.
inline RandomShape shared() {
    RandomShape s = kShape;
    s.layer_map = "0_0_2_0_2";
    return s;
}

inline std::vector<int32_t> some_ids(int64_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> ids(static_cast<size_t>(n));
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(kShape.vocab));
    return ids;
}

inline EngineOptions with_types(EngineOptions o, DType k, DType v) {
    o.k_type = k;
    o.v_type = v;
    return o;
}

using Logits = std::vector<std::vector<float>>;

inline void keep_logits(Logits& all, const HostTensor& logits) {
    const Matrix<float> m = logits.as<float>();
    for (int64_t r = 0; r < m.rows; ++r) all.emplace_back(m.row(r), m.row(r) + m.cols);
}

/// Verifies a tree after the committed tokens, and keeps one path.
inline void grow(Engine& engine, Logits& all, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Row> rows;
    for (int32_t r = 0; r < 40; ++r) {
        const int32_t parent = r == 0 ? -1 : static_cast<int32_t>(random() % static_cast<uint32_t>(r));
        const auto depth =
            parent < 0 ? static_cast<int32_t>(engine->length()) : rows[static_cast<size_t>(parent)].position + 1;
        rows.push_back({.token = static_cast<int32_t>(random() % 96), .position = depth, .parent = parent});
    }
    std::vector<int32_t> path;
    for (int32_t at = 39; at >= 0; at = rows[static_cast<size_t>(at)].parent) path.push_back(at);
    std::reverse(path.begin(), path.end());
    engine->forward(rows);
    keep_logits(all, engine->logits().host());
    engine->keep(0, path);
}

/// Everything that a request does to its KV: a prompt, steps, trees, truncation, growth, and a second prompt.
inline Logits story(Engine& engine, int64_t prompt, int64_t steps) {
    Logits all;
    engine->prefill(0, some_ids(prompt, 7));
    keep_logits(all, engine->logits().host());
    for (int64_t i = 0; i < steps; ++i) all.push_back(engine.step(static_cast<int32_t>(i % 90)));
    for (uint32_t i = 0; i < 3; ++i) grow(engine, all, i);
    engine->truncate(0, prompt);
    all.push_back(engine.step(3));
    engine->truncate(0, (prompt + 1) / 2);
    for (int64_t i = 0; i < 3; ++i) all.push_back(engine.step(static_cast<int32_t>(i + 20)));
    engine->prefill(0, some_ids(std::min<int64_t>(prompt, 700), 9));
    keep_logits(all, engine->logits().host());
    for (uint32_t i = 0; i < 2; ++i) grow(engine, all, i + 10);
    return all;
}

inline Logits tell(const RandomShape& shape, const EngineOptions& options, int ranks, int64_t prompt,
                   int64_t steps = 4) {
    Logits logits;
    run_ranks(ranks, [&](Comm& comm) {
        Engine engine(std::make_unique<RandomModel>(shape), options, comm, 1, engine_device());
        Logits mine = story(engine, prompt, steps);
        if (comm.rank() == 0) logits = std::move(mine);
    });
    return logits;
}

/// Streams spans of two tiles, so that there are many and every ring wraps around.
inline Residency residency(const std::vector<bool>& on_chip, int64_t ring, const Link& link = {}) {
    return {.on_chip = on_chip, .ring = ring, .span_bytes = size_t{32} << 10, .link = link, .verify = true};
}

inline EngineOptions options(int64_t context, const Residency& r = {}) {
    return {.weights = DType::kF16, .context = context, .residency = r};
}

inline void expect_same(const Logits& a, const Logits& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_TRUE(same_bits(std::span<const float>(a[i]), std::span<const float>(b[i]))) << what << ", logits " << i;
    }
}

}  // namespace trireme::test
