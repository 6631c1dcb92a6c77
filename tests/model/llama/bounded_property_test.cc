// Properties of evicting caches for any sequence and any budget: sequences, lengths and budgets are drawn from seeds.

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "model/evicting_kv.h"
#include "offload/evicting/evicting_cache.h"
#include "tests/support/engine.h"
#include "tests/support/random_model.h"
#include "tests/support/sanitized.h"
#include "tests/support/seeds.h"

namespace trireme::test {
namespace {

constexpr int64_t kVocab = 48, kSteps = 6;

/// The results of a level for a prompt and for fixed tokens after it.
struct Result {
    std::vector<std::vector<float>> logits;  // after the prompt, and after each of the tokens
    int64_t kept = 0;                        // at the end
    bool recent_kept = true;                 // the last tokens, after every step
};

class BoundedProperties : public testing::Test {
  protected:
    void draw(uint64_t seed) {
        state_ = seed * 0x9e3779b97f4a7c15u + 1;
        prompt = 1 + below(40);
        text.clear();
        for (int64_t i = 0; i < prompt + kSteps; ++i) text.push_back(static_cast<int32_t>(below(kVocab)));
        window = 2 + below(prompt + kSteps);
    }
    int64_t below(int64_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
    }
    Result says(const EvictionShape& shape) {
        const LlamaConfig& config = engine_.weights().config();
        Level level(engine_.device(), comm_, engine_.weights(),
                    {.k_type = DType::kF32,
                     .v_type = DType::kF32,
                     .context = prompt + kSteps,
                     .cache = evicting_cache(config, engine_.weights().shard(), shape, comm_)});
        return played(level, shape);
    }
    Result says_full() {
        Level level(engine_.device(), comm_, engine_.weights(),
                    {.k_type = DType::kF32, .v_type = DType::kF32, .context = prompt + kSteps});
        return played(level, {});
    }
    EvictionShape shape(KvPolicy policy, int64_t tokens) {
        return {.policy = policy,
                .budget = tokens,
                .heavy = below(tokens),
                .sinks = policy == KvPolicy::kStreaming ? std::min<int64_t>(2, tokens - 1) : 0,
                .rolling = rolling,
                .observe = 1 + below(tokens - 1),
                .pool = 3,
                .every = 1 + below(4)};
    }

    std::vector<int32_t> text;
    int64_t prompt = 0, window = 0;
    bool rolling = false;

  private:
    Result played(Level& level, const EvictionShape& shape) {
        Result said;
        const auto look = [&] {
            const HostTensor all = level.logits().host();
            const auto* x = static_cast<const float*>(all.data());
            said.logits.emplace_back(x, x + kVocab);
            if (level.cache().retained() != nullptr) check(level.cache(), shape, said);
        };
        const std::vector<int32_t> first = {0};
        level.prefill(0, std::span(text).first(static_cast<size_t>(prompt)));
        look();
        for (int64_t at = prompt; at < prompt + kSteps; ++at) {
            const std::vector<Row> rows = {
                {.token = text[static_cast<size_t>(at)], .position = static_cast<int32_t>(at)}};
            level.forward(rows);
            level.keep(0, first);
            look();
        }
        return said;
    }
    // Checks that every head retains its most recent tokens, and as many tokens as its budget allows; heads that share
    // slots, as many as their budgets together allow.
    static void check(const KvCache& cache, const EvictionShape& shape, Result& said) {
        const SlotKv& kv = *cache.retained();
        const auto* tokens = static_cast<const int32_t*>(kv.tokens.data());
        int64_t of_owner = 0;
        for (int64_t row = 0; row < kv.owners() * kv.layout.kv_heads; ++row) {
            const int64_t n = static_cast<const int32_t*>(kv.counts.data())[row], length = cache.length(0);
            const int64_t budget = shape.budget_of(OwnerIndex(row / kv.layout.kv_heads), kv.owners());
            of_owner = row % kv.layout.kv_heads == 0 ? n : of_owner + n;
            if (!shape.shares()) {
                ASSERT_EQ(n, std::min(length, budget));
            }
            if ((row + 1) % kv.layout.kv_heads == 0) {
                ASSERT_EQ(of_owner, kv.layout.kv_heads * std::min(length, budget));
            }
            said.kept = n;
            for (int64_t i = 0; i < std::min({shape.recent(), length, budget}); ++i) {
                const auto* begin = tokens + row * kv.slots();
                said.recent_kept &= std::count(begin, begin + n, static_cast<int32_t>(length - 1 - i)) == 1;
            }
        }
    }

    uint64_t state_ = 0;
    SelfComm comm_;
    Engine engine_{std::make_unique<RandomModel>(RandomShape{.name = "bounded",
                                                             .layers = 2,
                                                             .dim = 32,
                                                             .heads = 4,
                                                             .kv_heads = 2,
                                                             .head_dim = 8,
                                                             .ffn = 32,
                                                             .vocab = kVocab,
                                                             .context = 256}),
                   {.weights = DType::kF32, .context = 64},
                   comm_};
};

TEST_F(BoundedProperties, OfEveryTextAndWindow) {
    for (int64_t seed = 0; seed < test_seeds(kSanitized ? 10 : 100); ++seed) {
        draw(static_cast<uint64_t>(seed));
        const KvPolicy policy = evicting_policies()[below(evicting_policies().size())];
        rolling = below(2) == 0;
        SCOPED_TRACE(fmt::format("seed {}: {}, {} + {} tokens, W {}{}", seed, name_of(policy), prompt, kSteps, window,
                                 rolling ? ", rolling" : ""));
        EvictionShape asked = shape(policy, window);
        if (policy == KvPolicy::kPyramidKv) asked.observe = 1;
        const Result full = says_full(), some = says(asked);
        ASSERT_EQ(some.logits[0], full.logits[0]) << "what follows the prompt depends on what is kept of it";
        ASSERT_TRUE(some.recent_kept);

        // With a budget for all tokens, logits have the bits of a full cache. SnapKV replaces PyramidKV, whose last
        // layer retains a part of W.
        const Result all =
            says(shape(policy == KvPolicy::kPyramidKv ? KvPolicy::kSnapKv : policy, prompt + kSteps + 1));
        ASSERT_EQ(all.logits, full.logits);
        ASSERT_EQ(all.kept, prompt + kSteps);

        // H2O without heavy hitters is a window, and so is streaming without sinks.
        EvictionShape nobody = shape(KvPolicy::kH2o, window), last = nobody;
        nobody.heavy = 0;
        last.policy = KvPolicy::kStreaming;
        const Result window_of_h2o = says(nobody);
        ASSERT_EQ(window_of_h2o.logits, says(last).logits);
        ASSERT_TRUE(window_of_h2o.recent_kept);
    }
}

}  // namespace
}  // namespace trireme::test
