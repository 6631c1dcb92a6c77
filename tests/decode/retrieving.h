#pragma once
/// A target, and a level over the same weights that sees a part of the sequence, for tests.

#include <memory>
#include <vector>

#include "model/evicting_kv.h"
#include "offload/retrieved/retrieval_set.h"
#include "offload/retrieved/set_cache.h"
#include "tests/support/engine.h"

namespace trireme::test {

/// Options of a level that sees the tokens of `set`.
inline LevelOptions over_set(LevelOptions options, KvSet& set) {
    options.cache = [&set](Device& device, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
        return std::make_unique<SetCache>(device, compute, shape, set);
    };
    return options;
}

/// A target and, over the same weights, a level that sees the tokens of a RetrievalSet.
struct Retrieving {
    Retrieving(Engine& engine, const LevelOptions& target_options, const RetrievalShape& shape)
        : target(engine.device(), engine.comm(), engine.weights(), target_options),
          set(engine.device(), target.stream(), *target.full(), shape),
          middle(engine.device(), engine.comm(), engine.weights(), over_set(target_options, set)) {}

    Level target;
    RetrievalSet set;
    Level middle;
};

/// Like Retrieving, with heavy hitters instead of retrieved tokens.
struct Heavy {
    Heavy(Engine& engine, const LevelOptions& target_options, const EvictionShape& shape)
        : target(engine.device(), engine.comm(), engine.weights(), by_layers(target_options)),
          set(heavy_set(engine.device(), target, shape, engine.comm())),
          middle(engine.device(), engine.comm(), engine.weights(), over_set(target_options, *set)) {}

    static LevelOptions by_layers(LevelOptions options) {
        options.residency.by_layers = true;
        return options;
    }
    static EvictionShape of(int64_t tokens) {
        return {.policy = KvPolicy::kH2o, .budget = tokens, .heavy = tokens / 2, .returns = true};
    }

    Level target;
    std::unique_ptr<HeavySet> set;
    Level middle;
};

}  // namespace trireme::test
