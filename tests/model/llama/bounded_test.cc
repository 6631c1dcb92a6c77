// Evicting caches in a level: retained tokens, logits and memory. tests/bounded.py compares retained tokens and scores
// with an independent float64 implementation; tests/kernels/slots_test.cc tests selection alone.

#include "tests/model/llama/bounded_story.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

TEST(Bounded, HasTheBitsOfAFullViewWhileEverythingIsKept) {
    for (const KvPolicy policy : kPolicies) {
        for (const auto& [kv, rolling] : {std::pair{DType::kF16, false}, {DType::kF32, false}, {DType::kF32, true}}) {
            if (kSanitized && kv != DType::kF16 && !rolling) continue;
            SelfComm comm;
            EvictionShape shape = shape_of(policy, 620);
            if (policy == KvPolicy::kPyramidKv) {  // the last layer retains W / 20 and its window
                shape.budget = 2000;
                shape.observe = 512;
            }
            shape.rolling = rolling;
            Pair p(shape, kv, comm);
            p.level.prefill(0, text_of(590));
            p.full.prefill(0, text_of(590));
            const std::string what = std::string(name_of(policy)) + (rolling ? " rolling" : "");
            EXPECT_EQ(logits_of(p.level), logits_of(p.full)) << what;
            EXPECT_EQ(steps(p.level, 12), steps(p.full, 12)) << what;
        }
    }
}

TEST(Bounded, ReadsThePromptExactlyWhateverItKeeps) {
    SelfComm comm;
    for (const KvPolicy policy : kPolicies) {
        for (const int64_t tokens : {8, 64}) {
            Pair p(shape_of(policy, tokens), DType::kF16, comm);
            p.level.prefill(0, text_of(300));
            p.full.prefill(0, text_of(300));
            EXPECT_EQ(logits_of(p.level), logits_of(p.full)) << name_of(policy) << " " << tokens;
        }
    }
}

TEST(Bounded, KeepsItsBudgetAndTheMostRecentTokens) {
    SelfComm comm;
    for (const KvPolicy policy : kPolicies) {
        for (const int64_t prompt : {3, 40, 120}) {
            const EvictionShape shape = shape_of(policy, 32);
            Pair p(shape, DType::kF32, comm);
            p.level.prefill(0, text_of(prompt));
            for (int64_t step = 0; step <= 40; ++step) {
                std::map<int64_t, int64_t> of_all;  // by owner, if heads share slots
                for (const auto& [at, kept] : kept_by(p.level, 0)) {
                    const int64_t length = prompt + step, budget = shape.budget_of(OwnerIndex(at.first), 3);
                    const auto n = static_cast<int64_t>(kept.size());
                    if (shape.shares()) {
                        ASSERT_GE(n, std::min(length, shape.share().least + shape.recent()));
                        of_all[at.first] += n;
                    } else {
                        ASSERT_EQ(n, std::min(length, budget)) << name_of(policy);
                    }
                    for (int64_t i = 0; i < std::min(shape.recent(), length); ++i) {
                        ASSERT_EQ(kept[kept.size() - 1 - static_cast<size_t>(i)], length - 1 - i) << name_of(policy);
                    }
                    for (int64_t i = 0; i < std::min(shape.sinks, length); ++i)
                        ASSERT_EQ(kept[static_cast<size_t>(i)], i);
                }
                for (const auto& [owner, n] : of_all) ASSERT_EQ(n, 2 * std::min(prompt + step, shape.budget));
                if (step < 40) steps(p.level, 1);
            }
        }
    }
}

// Without heavy hitters H2O is a sliding window, and so is streaming without sinks.
TEST(Bounded, H2oWithoutHeavyHittersIsAWindow) {
    SelfComm comm;
    EvictionShape h2o = shape_of(KvPolicy::kH2o, 24), window = shape_of(KvPolicy::kStreaming, 24);
    h2o.heavy = window.sinks = 0;
    Pair a(h2o, DType::kF32, comm), b(window, DType::kF32, comm);
    a.level.prefill(0, text_of(100));
    b.level.prefill(0, text_of(100));
    EXPECT_EQ(steps(a.level, 20), steps(b.level, 20));
}

TEST(Bounded, ReadsAPromptInChunksAsItReadsTurns) {
    SelfComm comm;
    for (const KvPolicy policy : kPolicies) {
        for (const bool rolling : {false, true}) {
            EvictionShape turns = shape_of(policy, 48), chunks = turns;
            turns.rolling = chunks.rolling = rolling;
            chunks.chunk = 70;
            Pair a(turns, DType::kF32, comm), b(chunks, DType::kF32, comm);
            const std::vector<int32_t> text = text_of(200);
            for (int64_t at = 0; at < 200; at += 70) {
                a.level.prefill(0, std::span(text).subspan(static_cast<size_t>(at),
                                                           static_cast<size_t>(std::min<int64_t>(70, 200 - at))));
            }
            b.level.prefill(0, text);
            EXPECT_EQ(logits_of(a.level), logits_of(b.level)) << name_of(policy);
            EXPECT_EQ(kept_by(a.level, 0), kept_by(b.level, 0)) << name_of(policy);
            EXPECT_EQ(steps(a.level, 20), steps(b.level, 20)) << name_of(policy);
        }
    }
}

TEST(Bounded, ComesBackToTheEndOfThePrompt) {
    SelfComm comm;
    for (const KvPolicy policy : kPolicies) {
        EvictionShape shape = shape_of(policy, 32);
        shape.returns = true;
        Pair p(shape, DType::kF16, comm);
        p.level.prefill(0, text_of(90));
        const Kept before = kept_by(p.level, 0);
        const auto first = steps(p.level, 25);
        EXPECT_TRUE(p.level.cache().can_truncate(0, 90));
        EXPECT_FALSE(p.level.cache().can_truncate(0, 91));
        p.level.truncate(0, 90);
        EXPECT_EQ(kept_by(p.level, 0), before) << name_of(policy);
        EXPECT_EQ(steps(p.level, 25), first) << name_of(policy);
        p.level.truncate(0, 0);
        p.level.prefill(0, text_of(90));
        EXPECT_EQ(steps(p.level, 25), first) << name_of(policy);
    }
}

// Slots for a turn are made free before it: heavy hitters are retained, the oldest of the recent tokens are evicted.
TEST(Bounded, MakesRoomForATurn) {
    SelfComm comm;
    for (const KvPolicy policy : kPolicies) {
        const EvictionShape shape = shape_of(policy, 48);
        Pair p(shape, DType::kF32, comm);
        p.level.prefill(0, text_of(100));
        steps(p.level, 5);
        const Kept before = kept_by(p.level, 0);
        const int64_t turn = shape.recent() - 1;
        EXPECT_FALSE(p.level.reserve(0, shape.recent()));
        EXPECT_EQ(kept_by(p.level, 0), before) << name_of(policy);
        if (turn == 0) continue;
        EXPECT_TRUE(p.level.reserve(0, turn));
        const Kept after = kept_by(p.level, 0);
        std::map<int64_t, int64_t> of_all;
        for (const auto& [at, kept] : after) {
            const std::vector<int32_t>& all = before.at(at);
            of_all[at.first] += static_cast<int64_t>(kept.size());
            if (!shape.shares()) {
                ASSERT_EQ(static_cast<int64_t>(kept.size()), shape.budget_of(OwnerIndex(at.first), 3) - turn);
            }
            EXPECT_EQ(kept.back(), all.back());
            EXPECT_TRUE(std::ranges::includes(all, kept)) << name_of(policy);
        }
        for (const auto& [owner, n] : of_all) ASSERT_EQ(n, 2 * (shape.budget_of(OwnerIndex(owner), 3) - turn));
        p.level.prefill(0, text_of(turn));
        for (const auto& [at, kept] : kept_by(p.level, 0)) {
            EXPECT_TRUE(std::ranges::includes(kept, after.at(at))) << "the turn evicted nothing, " << name_of(policy);
        }
        steps(p.level, 20);
    }
}

TEST(Bounded, RanksKeepTheSameTokens) {
    for (const KvPolicy policy : evicting_policies()) {
        for (int way = 0; way < 8; ++way) {
            EvictionShape shape = shape_of(policy, 24);
            shape.heads = static_cast<HeadsBy>(way % 4);
            shape.one_set = way >= 4;
            if ((kSanitized && shape.heads != HeadsBy::kMean) || (shape.one_set && !shape.may_keep_one_set())) continue;
            const int64_t kv_heads = shape.one_set ? 2 : 3;  // both are held by several of 4 ranks
            std::vector<Kept> of_ranks;
            for (const int ranks : {1, 2, 3, 4}) {
                std::vector<Kept> mine(static_cast<size_t>(ranks));
                run_ranks(ranks, [&](Comm& comm) {
                    Pair p(shape, DType::kF32, comm, kv_heads);
                    p.level.prefill(0, text_of(80));
                    steps(p.level, 30);
                    mine[static_cast<size_t>(comm.rank())] = kept_by(p.level, p.engine.weights().shard().kv_begin);
                });
                Kept all;
                for (const Kept& k : mine) {
                    for (const auto& [at, kept] : k) {
                        const auto [there, fresh] = all.emplace(at, kept);
                        EXPECT_EQ(there->second, kept) << "a head that two ranks hold, " << name_of(policy);
                    }
                }
                EXPECT_EQ(std::ssize(all), 3 * kv_heads);
                for (const auto& [at, kept] : all) {
                    if (!shape.one_set) continue;
                    EXPECT_EQ(kept, all.at({at.first, 0})) << "a head chose for itself";
                }
                of_ranks.push_back(all);
            }
            for (const Kept& k : of_ranks) EXPECT_EQ(k, of_ranks[0]) << name_of(policy) << " " << way;
        }
    }
}

TEST(Bounded, TakesTheMemoryItSays) {
    SelfComm comm;
    Engine engine(model_of(3), {.weights = DType::kF16, .context = 256}, comm);
    const LlamaConfig& config = engine.weights().config();
    for (const KvPolicy policy : kPolicies) {
        for (const int64_t chunk : {0, 100}) {
            EvictionShape shape = shape_of(policy, 300);
            shape.chunk = chunk;
            shape.returns = shape.rolling = chunk > 0;
            const KvShape kv = {.layout = {3, 16, DType::kF16, DType::kF16}, .owner_layers = 3, .context = 5000};
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

TEST(Bounded, RefusesWhatItCannotDo) {
    SelfComm comm;
    Pair p(shape_of(KvPolicy::kH2o, 32), DType::kF32, comm);
    p.level.prefill(0, text_of(50));
    steps(p.level, 3);
    EXPECT_FALSE(p.level.cache().can_truncate(0, 50));
    EXPECT_THROW(p.level.truncate(0, 50), Error);
    const std::vector<Row> two = {{.token = 1, .position = 53}, {.token = 2, .position = 54, .parent = 0}};
    EXPECT_THROW(p.level.forward(two), Error);
}

TEST(Bounded, PyramidsFallEvenlyAndKeepTheMean) {
    for (const int64_t owners : {1, 2, 3, 30, 32}) {
        for (const int64_t tokens : {100, 128, 512, 2048}) {
            const EvictionShape s = {.policy = KvPolicy::kPyramidKv, .budget = tokens, .observe = 64};
            int64_t all = 0, before = INT64_MAX;
            for (OwnerIndex o; o.i < owners; ++o) {
                const int64_t mine = s.budget_of(o, owners);
                EXPECT_LE(mine, before);
                EXPECT_GE(mine, 64);
                all += before = mine;
            }
            EXPECT_EQ(all, owners * tokens);
            if (owners == 1) continue;
            // If a prompt is shorter than the first layer's budget, the upper layers get the rest.
            for (const int64_t prompt : {tokens + 1, tokens * 3 / 2, tokens * 5}) {
                EvictionShape shorter = s;
                shorter.prompt = prompt;
                int64_t sum = 0, last = prompt;
                for (OwnerIndex o; o.i < owners; ++o) {
                    const int64_t mine = shorter.budget_of(o, owners);
                    EXPECT_LE(mine, std::min(last, prompt) + 1);  // shares are rounded
                    sum += last = mine;
                }
                EXPECT_EQ(sum, owners * tokens) << prompt;
            }
            EXPECT_NEAR(static_cast<double>(before), 64 + static_cast<double>(std::min(tokens / 20, tokens - 64)), 1);
        }
    }
}

}  // namespace
}  // namespace trireme::test
