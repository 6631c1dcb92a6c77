// Evicting caches of models whose layers share keys and values: owners evict, and all layers that read them see the
// retained tokens. tests/bounded.py compares these with an independent float64 implementation.

#include <set>

#include "tests/model/llama/bounded_story.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

struct Map {
    const char* text;
    bool no_diagonal = false;
};
// Readers below their owner, above it, both; owners that do not read themselves; tokens that do not see themselves.
const Map kMaps[] = {{"0_0_2_2"}, {"0_3_3_3_4"}, {"1_2_0"}, {"3_0_5_3_4_5"}, {"0_1_2", true}, {"0_2_2_3", true}};

void PrintTo(const Map& m, std::ostream* out) {
    *out << m.text << (m.no_diagonal ? " without themselves" : "");
}
Passes passes_of(int64_t n) {
    return n == 0 ? Passes{.how = Passes::How::kExact} : Passes{.how = Passes::How::kFixed, .n = n};
}

class BoundedSharing : public testing::TestWithParam<Map> {
  protected:
    std::unique_ptr<RandomModel> model(int64_t kv_heads = 2) const {
        return model_of(kv_heads, GetParam().text, GetParam().no_diagonal);
    }
    LayerMap map() const {
        const std::string text = GetParam().text;
        return LayerMap::parse(text, std::ranges::count(text, '_') + 1, "test");
    }
    int64_t owners() const { return map().owners(); }
    std::unique_ptr<Pair> pair(const EvictionShape& shape, DType kv, int64_t passes, int64_t kv_heads = 2) {
        return std::make_unique<Pair>(shape, kv, comm, model(kv_heads), passes_of(passes));
    }
    SelfComm comm;
};

TEST_P(BoundedSharing, HasTheBitsOfAFullViewWhileEverythingIsKept) {
    for (const KvPolicy policy : kPolicies) {
        for (const auto& [kv, rolling] : {std::pair{DType::kF16, false}, {DType::kF32, true}}) {
            EvictionShape shape = shape_of(policy, 320);
            if (policy == KvPolicy::kPyramidKv) {  // the last owner retains W / 20 and its window
                shape.budget = 1200;
                shape.observe = 300;
            }
            shape.rolling = rolling;
            const auto p = pair(shape, kv, rolling ? 3 : 1);
            p->level.prefill(0, text_of(290));
            p->full.prefill(0, text_of(290));
            const std::string what = std::string(name_of(policy)) + (rolling ? " rolling" : "");
            EXPECT_EQ(logits_of(p->level), logits_of(p->full)) << what;
            EXPECT_EQ(steps(p->level, 12), steps(p->full, 12)) << what;
        }
    }
}

// Rolling positions are those of the sequence until a token is evicted, and others afterwards.
TEST_P(BoundedSharing, RollsOnlyWhenTokensHaveGone) {
    for (const KvPolicy policy :
         {KvPolicy::kStreaming, KvPolicy::kH2o, KvPolicy::kKeyNorm, KvPolicy::kKeyDiff, KvPolicy::kExpected}) {
        EvictionShape shape = shape_of(policy, 64);
        shape.rolling = true;
        const auto p = pair(shape, DType::kF32, 2);
        p->level.prefill(0, text_of(59));
        p->full.prefill(0, text_of(59));
        EXPECT_EQ(logits_of(p->level), logits_of(p->full));
        // The step at length 64 sees all tokens; then one is evicted.
        const auto some = steps(p->level, 8), all = steps(p->full, 8);
        for (size_t i = 0; i < 6; ++i) EXPECT_EQ(some[i], all[i]) << name_of(policy) << " " << i;
        EXPECT_NE(some[7], all[7]) << name_of(policy);
    }
}

// The prompt takes the requested number of passes. If layers read later ones, each number gives other logits.
TEST_P(BoundedSharing, ReadsThePromptAsTheFullViewDoesWhateverItKeeps) {
    for (const KvPolicy policy : kPolicies) {
        std::set<std::vector<float>> said;
        for (const int64_t passes : {1, 3, 0}) {
            if (kSanitized && passes == 1 && map().upward()) continue;
            const auto p = pair(shape_of(policy, 16), DType::kF16, passes);
            p->level.prefill(0, text_of(120));
            p->full.prefill(0, text_of(120));
            EXPECT_EQ(logits_of(p->level), logits_of(p->full)) << name_of(policy) << ", passes " << passes;
            EXPECT_EQ(p->level.passes(), p->full.passes());
            said.insert(logits_of(p->level));
        }
        EXPECT_EQ(said.size(), map().upward() ? (kSanitized ? 2U : 3U) : 1U);
    }
}

TEST_P(BoundedSharing, KeepsItsBudgetAndTheMostRecentTokens) {
    for (const KvPolicy policy : kPolicies) {
        for (const int64_t prompt : {1, 40}) {
            const EvictionShape shape = shape_of(policy, 24);
            const auto p = pair(shape, DType::kF32, 2);
            p->level.prefill(0, text_of(prompt));
            for (int64_t step = 0; step <= 30; ++step) {
                const Kept kept = kept_by(p->level, 0);
                ASSERT_EQ(static_cast<int64_t>(kept.size()), 2 * owners());
                const int64_t length = prompt + step;
                for (const auto& [at, tokens] : kept) {
                    if (!shape.shares()) {
                        ASSERT_EQ(static_cast<int64_t>(tokens.size()),
                                  std::min(length, shape.budget_of(OwnerIndex(at.first), owners())));
                    }
                    for (int64_t i = 0; i < std::min(shape.recent(), length); ++i) {
                        ASSERT_EQ(tokens[tokens.size() - 1 - static_cast<size_t>(i)], length - 1 - i);
                    }
                }
                if (step < 30) steps(p->level, 1);
            }
        }
    }
}

TEST_P(BoundedSharing, ReadsAPromptInChunksAsItReadsTurns) {
    for (const KvPolicy policy : kPolicies) {
        for (const bool rolling : {false, true}) {
            EvictionShape turns = shape_of(policy, 32), chunks = turns;
            turns.rolling = chunks.rolling = rolling;
            chunks.chunk = 50;
            const auto a = pair(turns, DType::kF32, 2), b = pair(chunks, DType::kF32, 2);
            const std::vector<int32_t> text = text_of(140);
            for (const auto& [at, n] : {std::pair<size_t, size_t>{0, 50}, {50, 50}, {100, 40}}) {
                a->level.prefill(0, std::span(text).subspan(at, n));
            }
            b->level.prefill(0, text);
            EXPECT_EQ(logits_of(a->level), logits_of(b->level)) << name_of(policy);
            EXPECT_EQ(kept_by(a->level, 0), kept_by(b->level, 0)) << name_of(policy);
            EXPECT_EQ(steps(a->level, 10), steps(b->level, 10)) << name_of(policy);
        }
    }
}

TEST_P(BoundedSharing, ComesBackToTheEndOfThePromptAndMakesRoom) {
    for (const KvPolicy policy : kPolicies) {
        EvictionShape shape = shape_of(policy, 32);
        shape.returns = true;
        const auto p = pair(shape, DType::kF16, 2);
        p->level.prefill(0, text_of(90));
        const Kept before = kept_by(p->level, 0);
        const auto first = steps(p->level, 12);
        p->level.truncate(0, 90);
        EXPECT_EQ(kept_by(p->level, 0), before) << name_of(policy);
        EXPECT_EQ(steps(p->level, 12), first) << name_of(policy);
        const int64_t turn = shape.recent() - 1;
        if (turn == 0) continue;
        EXPECT_TRUE(p->level.reserve(0, turn));
        const Kept roomy = kept_by(p->level, 0);
        p->level.prefill(0, text_of(turn));
        for (const auto& [at, kept] : kept_by(p->level, 0)) {
            EXPECT_TRUE(std::ranges::includes(kept, roomy.at(at))) << "the turn evicted nothing, " << name_of(policy);
        }
        steps(p->level, 8);
    }
}

// 3 KV heads on 4 ranks: some are held twice. Both copies retain the same tokens, and all ranks together retain what
// one rank does.
TEST_P(BoundedSharing, RanksKeepTheSameTokens) {
    const auto policies = evicting_policies();
    const HeadsBy ways[] = {HeadsBy::kFirst, HeadsBy::kMean, HeadsBy::kSum, HeadsBy::kMax};
    for (size_t number = 0; number < 2 * policies.size(); ++number) {
        const KvPolicy policy = policies[number % policies.size()];
        const HeadsBy heads = ways[(number + number / 4) % 4];
        EvictionShape shape = shape_of(policy, 24);
        shape.heads = heads;
        shape.rolling = number % 2 == 0;
        Kept alone;
        for (const int ranks : {1, 2, 4}) {
            std::vector<Kept> mine(static_cast<size_t>(ranks));
            run_ranks(ranks, [&](Comm& ranked) {
                Pair p(shape, DType::kF32, ranked, model(3), passes_of(2));
                p.level.prefill(0, text_of(60));
                steps(p.level, 20);
                mine[static_cast<size_t>(ranked.rank())] = kept_by(p.level, p.engine.weights().shard().kv_begin);
            });
            Kept all;
            for (const Kept& k : mine) {
                for (const auto& [at, kept] : k) {
                    EXPECT_EQ(all.emplace(at, kept).first->second, kept)
                        << "a head that two ranks hold, " << name_of(policy);
                }
            }
            EXPECT_EQ(static_cast<int64_t>(all.size()), 3 * owners());
            if (ranks == 1) alone = all;
            EXPECT_EQ(all, alone) << name_of(policy) << " " << static_cast<int>(heads) << ", ranks " << ranks;
        }
    }
}

TEST_P(BoundedSharing, TakesTheMemoryItSays) {
    Engine engine(model(3), {.weights = DType::kF16, .context = 256}, comm);
    const LlamaConfig& config = engine.weights().config();
    for (const KvPolicy policy : kPolicies) {
        for (const int64_t chunk : {0, 100}) {
            EvictionShape shape = shape_of(policy, 300);
            shape.chunk = chunk;
            shape.returns = shape.rolling = chunk > 0;
            const KvShape kv = {.layout = {3, 16, DType::kF16, DType::kF16}, .owner_layers = owners(), .context = 5000};
            const std::unique_ptr<Stream> stream = engine.device().make_stream("test");
            const size_t device = engine.device().used(Space::kDevice), host = engine.device().used(Space::kHost);
            const auto cache =
                evicting_cache(config, engine.weights().shard(), shape, comm)(engine.device(), *stream, kv, {});
            const MemoryBytes says = evicting_memory(config, engine.weights().shard(), kv, shape, "cpu", 1);
            // A CPU's memory comes in whole pages: the cache's own, its queries', its kernels'.
            const auto pages = [](size_t used, size_t said) { return used >= said && used < said + 3 * 4096; };
            EXPECT_TRUE(pages(engine.device().used(Space::kDevice) - device, says.device)) << name_of(policy);
            EXPECT_TRUE(pages(engine.device().used(Space::kHost) - host, says.host)) << name_of(policy);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Maps, BoundedSharing, testing::ValuesIn(kMaps), [](const auto& param) {
    return fmt::format("m{}{}", param.param.text, param.param.no_diagonal ? "_nodiag" : "");
});

// A prompt's keys and values are stored until the last layer that reads them. Owners that wait at the same time need a
// place each; a model whose owners wait one after the other needs no more places.
TEST(BoundedSharingMemory, HasAPlaceForEachOwnerThatWaits) {
    const auto bytes = [](const char* map, KvPolicy policy) {
        const LlamaConfig config = model_of(2, map)->config();
        const KvShape kv = {
            .layout = {2, 16, DType::kF16, DType::kF16}, .owner_layers = config.layer_map.owners(), .context = 5000};
        return evicting_memory(config, make_shard(config, 0, 1), kv, shape_of(policy, 64), "cpu", 1).device;
    };
    const size_t tiles = static_cast<size_t>(tiles_for(5000)) * KvLayout{2, 16, DType::kF16, DType::kF16}.tile_bytes();
    EXPECT_EQ(bytes("0_2_2", KvPolicy::kStreaming), bytes("0_1_1", KvPolicy::kStreaming));
    EXPECT_EQ(bytes("0_0_2_2", KvPolicy::kH2o), bytes("0_1_1_1", KvPolicy::kH2o));
    const size_t one = bytes("0_1_2", KvPolicy::kStreaming), three = bytes("1_2_0", KvPolicy::kStreaming);
    EXPECT_GT(three, one + 2 * tiles);
    EXPECT_LT(three, one + 2 * tiles + 8192);  // tables, and the ranks of slots
    // If attention counts, the weights of the entries are also stored until then.
    EXPECT_GT(bytes("1_2_0", KvPolicy::kH2o) - bytes("0_1_2", KvPolicy::kH2o), 2 * (tiles + 2 * 5000 * sizeof(float)));
}

}  // namespace
}  // namespace trireme::test
