#pragma once
/// A level with an evicting cache and one with a full cache: sequences, steps, and the retained tokens.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "model/evicting_kv.h"
#include "offload/evicting/evicting_cache.h"
#include "tests/support/engine.h"
#include "tests/support/random_model.h"

namespace trireme::test {

inline constexpr int64_t kVocab = 96, kContext = 700;

/// A model with `kv_heads` of 6 query heads: with 3 KV heads and 4 ranks some are held twice. `map` sets the layers.
inline std::unique_ptr<RandomModel> model_of(int64_t kv_heads, const std::string& map = "0_1_2",
                                             bool no_diagonal = false) {
    return std::make_unique<RandomModel>(RandomShape{.name = "bounded",
                                                     .layers = std::ranges::count(map, '_') + 1,
                                                     .dim = 96,
                                                     .heads = 6,
                                                     .kv_heads = kv_heads,
                                                     .head_dim = 16,
                                                     .ffn = 96,
                                                     .vocab = kVocab,
                                                     .context = 4096,
                                                     .layer_map = map,
                                                     .no_diagonal = no_diagonal});
}

inline std::vector<int32_t> text_of(int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 3 + 11) % kVocab));
    return ids;
}

/// Every policy that evicts.
inline const std::vector<KvPolicy> kPolicies = [] {
    std::vector<KvPolicy> all;
    for (size_t i = 1; i < trireme::kPolicies.size(); ++i) all.push_back(static_cast<KvPolicy>(i));
    return all;
}();

inline EvictionShape shape_of(KvPolicy policy, int64_t tokens) {
    return {.policy = policy,
            .budget = tokens,
            .heavy = tokens / 2,
            .sinks = row_of(policy).sinks,
            .one_set = row_of(policy).one_set,
            .observe = std::max<int64_t>(1, tokens / 4),
            .pool = 3,
            .every = 7};
}

/// An engine with two levels: one with an evicting cache, one with a full cache.
struct Pair {
    Pair(const EvictionShape& shape, DType kv, Comm& comm, int64_t kv_heads = 2)
        : Pair(shape, kv, comm, model_of(kv_heads), {}) {}
    Pair(const EvictionShape& shape, DType kv, Comm& comm, std::unique_ptr<WeightSource> model, const Passes& passes)
        : engine(std::move(model), {.weights = DType::kF32, .context = 256}, comm),
          level(engine.device(), comm, engine.weights(),
                {.k_type = kv,
                 .v_type = kv,
                 .context = kContext,
                 .cache = evicting_cache(engine.weights().config(), engine.weights().shard(), shape, comm),
                 .passes = passes}),
          full(engine.device(), comm, engine.weights(),
               {.k_type = kv, .v_type = kv, .context = kContext, .passes = passes}) {}
    const SlotKv& retained() const { return *level.cache().retained(); }

    Engine engine;
    Level level, full;
};

inline std::vector<float> logits_of(Level& level) {
    const HostTensor all = level.logits().host();
    const auto* x = static_cast<const float*>(all.data());
    return {x, x + kVocab};
}

/// Decodes the next n tokens of text_of() after the level's sequence; returns the logits of each step.
inline std::vector<std::vector<float>> steps(Level& level, int64_t n) {
    std::vector<std::vector<float>> all;
    const std::vector<int32_t> first = {0}, ids = text_of(level.length() + n);
    for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(level.length());
        const std::vector<Row> rows = {{.token = ids[at], .position = static_cast<int32_t>(at)}};
        level.forward(rows);
        all.push_back(logits_of(level));
        level.keep(0, first);
    }
    return all;
}

/// The tokens that each KV head of the model retains, by (owner, head).
using Kept = std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>>;
inline Kept kept_by(Level& level, int64_t first_head) {
    const SlotKv& kv = *level.cache().retained();
    level.stream().synchronize();
    Kept all;
    const int64_t heads = kv.layout.kv_heads;
    for (int64_t row = 0; row < kv.owners() * heads; ++row) {
        const int32_t n = static_cast<const int32_t*>(kv.counts.data())[row];
        std::vector<int32_t>& kept = all[{row / heads, first_head + row % heads}];
        kept.resize(static_cast<size_t>(n));
        for (int32_t s = 0; s < n; ++s) {
            const int64_t at = row * kv.slots() + s;
            kept[static_cast<size_t>(static_cast<const int32_t*>(kv.ranks.data())[at])] =
                static_cast<const int32_t*>(kv.tokens.data())[at];
        }
    }
    return all;
}

}  // namespace trireme::test
