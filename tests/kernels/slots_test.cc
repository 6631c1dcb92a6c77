#include "kernels/slots.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/chunks.h"
#include "tests/kernels/slots_worked.h"
#include "tests/support/seeds.h"

namespace trireme::test {
namespace {

TEST(SlotsWorked, CaseA) {
    Worked w;
    w.call(5);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 3, 4}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.75, 1.0, 0.375, 0.125}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 4, 5}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.8125, 1.125, 0.1875, 0.0625}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 5, 6}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.9375, 1.25, 0.5625, 0.125}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 5, 6, 7}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.96875, 1.4375, 0.15625, 0.03125}));
}

TEST(SlotsWorked, CaseATokenByToken) {
    Worked w;
    for (int i = 0; i < 5; ++i) w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 3, 4}));
    for (int i = 0; i < 3; ++i) w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 5, 6, 7}));
}

TEST(SlotsWorked, CaseB) {
    Worked w;
    w.call(5);
    w.step();
    w.call(2);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 6, 7}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.953125, 1.265625, 0.140625, 0.015625}));
}

TEST(SlotsWorked, CaseC) {
    Worked w;
    w.call(6);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 2, 4, 5}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.78125, 1.25, 0.15625, 0.03125}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 2, 5, 6}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.84375, 1.8125, 0.28125, 0.0625}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 2, 6, 7}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.875, 1.84375, 0.09375, 0.03125}));
}

TEST(SlotsWorked, CaseE) {
    Worked w;
    w.call(8);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 6, 7}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.8203125, 1.9921875, 0.0390625, 0.0078125}));
}

TEST(SlotsWorked, CaseRMakesRoomForOne) {
    Worked w;
    w.call(5);
    w.step();
    w.step();
    ASSERT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 5, 6}));
    SlotRule fewer = w.rule;
    fewer.recent = 1;
    Entries entries(kOneHead, 4, 3);
    end_call(w.m, w.slots, entries, fewer, {.cached = 4, .fresh = 0, .first_token = 7, .reserve = 1}, {{}});
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 6}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{2.9375, 1.25, 0.125}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 3, 6, 7}));
    EXPECT_EQ(w.slots.scored(0, 0), (std::vector<float>{3.1875, 1.5, 0.375, 0.25}));
}

TEST(SlotsWorked, CaseTKeepsTheOlderOfEqualOnes) {
    Worked w;
    // Each token receives 1 in all. A softmax would favour early tokens.
    const Tokens all = w.with(6);
    Entries entries(kOneHead, 6, 3);
    end_call(w.m, w.slots, entries, w.rule, {.cached = 0, .fresh = 6, .first_token = 0}, {Weights(6, 1.0)});
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 4, 5}));
    w.next = 6;
    end_step(w.m, w.slots, w.rule, 6, {Weights(5, 0.0)});
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 5, 6}));
}

// Case G: two query heads read the KV head.
TEST(SlotsWorked, CaseGPoolsItsHeads) {
    const std::vector<Weights> other = {{1}, {1, 1}, {1, 1, 2}, {1, 1, 5, 1}, {1, 1, 12, 1, 1}};
    Tokens all = {0, 1, 2, 3, 4};
    const Weights mine = attention_of(kWorked, all, 5), its = attention_of(other, all, 5);
    struct Want {
        std::vector<float> shares;
        HeadPool pool;
        Tokens kept;
        float first;
    };
    for (const Want& want :
         {Want{{1, 0}, HeadPool::kAdd, {0, 1, 3, 4}, 2.75F}, Want{{0.5, 0.5}, HeadPool::kAdd, {0, 2, 3, 4}, 2.34375F},
          Want{{1, 1}, HeadPool::kAdd, {0, 2, 3, 4}, 4.6875F}, Want{{1, 1}, HeadPool::kMax, {0, 2, 3, 4}, 2.75F}}) {
        Worked w;
        Operand sums(DType::kF32, 2, 5), out(DType::kF32, 1, 5), heads = Operand::ids({0, 0}),
                                                                 shares(DType::kF32, 2, 1);
        for (int64_t i = 0; i < 5; ++i) {
            sums.set(0, i, mine[static_cast<size_t>(i)]);
            sums.set(1, i, its[static_cast<size_t>(i)]);
        }
        for (int64_t h = 0; h < 2; ++h) shares.set(h, 0, static_cast<double>(want.shares[static_cast<size_t>(h)]));
        w.m->pool_weights(Tensor(out.tensor().data(), DType::kF32, {1, 1, 5}),
                          Tensor(sums.tensor().data(), DType::kF32, {1, 2, 5}), {}, {}, heads.vector(), shares.vector(),
                          {.by = want.pool});
        w.m.stream->synchronize();
        EXPECT_EQ(out.at<float>(0, 0), want.first);
        Entries entries(kOneHead, 5, 3);
        end_call(w.m, w.slots, entries, w.rule, {.cached = 0, .fresh = 5, .first_token = 0}, {[&] {
                     Weights pooled;
                     for (int64_t i = 0; i < 5; ++i) pooled.push_back(out.get(0, i));
                     return pooled;
                 }()});
        EXPECT_EQ(w.slots.kept(0, 0), want.kept);
    }
}

TEST(SlotsWorked, ASinkIsWorthMoreThanAnyScore) {
    Worked w({.by = ScoreBy::kSum, .recent = 2, .sinks = 2});
    w.call(6);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 4, 5}));
    w.step();
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{0, 1, 6, 7}));
}

TEST(SlotScores, SumsOfHalvesStopGrowing) {
    Worked w;
    w.rule.half = true;
    w.rule.recent = 1;
    const auto score = [&](double first, double step, int steps) {
        const Tokens all = w.with(1);
        auto value = static_cast<float>(first);
        for (int i = 0; i < steps; ++i) value = attended_score(w.rule, value, static_cast<float>(step), 1);
        return value;
    };
    EXPECT_EQ(score(1.0, 0.0004, 4000), 1.0F);
    EXPECT_EQ(score(3.0, 0.0008, 4000), 3.0F);
    EXPECT_EQ(score(600, 0.2, 4000), 600.0F);
    EXPECT_EQ(score(2000, 0.6, 1000), 2048.0F);
}

// H = 0: recent tokens fill the budget, and no sink is retained.
TEST(SlotsWorked, NoSinkStaysWhereAllAreRecent) {
    Worked w({.by = ScoreBy::kSum, .recent = 4, .sinks = 1});
    w.call(6);
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{2, 3, 4, 5}));
    w.step();
    EXPECT_EQ(w.slots.kept(0, 0), (Tokens{3, 4, 5, 6}));
}

// The upper 24 bits of splitmix64: its first number from seed 0 is 0xe220a8397b1dcdaf.
TEST(SlotScores, ADrawnNumberIsSplitmix64s) {
    const auto drawn = [](uint32_t seed, int32_t first_head, int64_t owner, int64_t head, int64_t token) {
        const SlotRule rule = {.by = ScoreBy::kRandom, .seed = seed, .first_head = first_head};
        return static_cast<double>(random_score(rule, owner, head, token)) * 0x1p24;
    };
    EXPECT_EQ(drawn(0, 0, 0, 0, 0), 0xe220a8);
    EXPECT_EQ(drawn(7, 3, 0, 0, 0), 13969041);
    EXPECT_EQ(drawn(7, 2, 0, 1, 0), 13969041);
    EXPECT_EQ(drawn(7, 3, 2, 1, 5), 2207386);
    EXPECT_EQ(drawn(UINT32_MAX, 0, 31, 7, 100000), 8321773);
}

/// Compares heads of several owners with lists, over calls and steps with random weights.
void play(const SlotRule& rule, int64_t seeds, uint32_t first_seed) {
    const KvLayout layout = {2, 16, DType::kF16, DType::kBF16};
    Machine m(Phase::kDecode, 2, kSlotLimits);
    for (uint32_t seed = first_seed; seed < first_seed + seeds; ++seed) {
        Normal random(seed);
        const int64_t slots = 3 + random.below(seed % 5 == 0 ? 70 : 12);  // sometimes more than a vector holds
        const auto recent = static_cast<int32_t>(rule.recent < slots ? rule.recent : slots - 1);
        SlotRule r = rule;
        r.recent = recent;
        Slots store(layout, 2, slots, static_cast<int32_t>(slots), seed);
        std::vector<ListedHead> lists(4);
        int64_t next = 0;
        const auto weights = [&](const ListedHead& head, int64_t fresh) {
            Weights w(head.tokens.size() + static_cast<size_t>(fresh));
            for (double& x : w) x = static_cast<double>(static_cast<float>(random.below(1 << 20)) / 1024.0F);
            return w;
        };
        for (int round = 0; round < 12; ++round) {
            const int64_t fresh = random.below(4) == 0 ? 1 + random.below(20) : 1;
            std::vector<Weights> given;
            for (const ListedHead& l : lists) given.push_back(weights(l, fresh));
            if (fresh > 1 || random.below(2) == 0) {
                for (int64_t o = 0; o < 2; ++o) {
                    const auto cached = static_cast<int64_t>(lists[0].tokens.size());
                    Entries entries(layout, cached + fresh, seed + 7);
                    end_call(m, store, entries, r, {o, cached, fresh, next},
                             {given[static_cast<size_t>(2 * o)], given[static_cast<size_t>(2 * o + 1)]});
                }
            } else {
                end_step(m, store, r, next, given);
            }
            for (size_t i = 0; i < 4; ++i) lists[i].call(r, static_cast<int32_t>(slots), next, fresh, given[i]);
            next += fresh;
            for (int64_t i = 0; i < 4; ++i) {
                const ListedHead& want = lists[static_cast<size_t>(i)];
                const Tokens kept = store.kept(i / 2, i % 2);
                ASSERT_EQ(kept, want.tokens) << "seed " << seed << " round " << round << " head " << i;
                ASSERT_EQ(static_cast<int64_t>(kept.size()), std::min(next, slots));
                for (size_t a = 0; a < static_cast<size_t>(std::min<int64_t>(recent, next)); ++a)
                    ASSERT_EQ(kept[kept.size() - 1 - a], next - 1 - static_cast<int64_t>(a));
                const std::vector<float> got = store.scored(i / 2, i % 2);
                for (size_t t = 0; t < got.size(); ++t)
                    ASSERT_NEAR(got[t], want.scores[t], 1e-5 * (1 + want.scores[t]));
            }
        }
    }
}

TEST(SlotsRandom, KeepWhatListsKeep) {
    const int64_t seeds = emulated() || kSanitized ? 12 : test_seeds(100);
    play({.by = ScoreBy::kSum, .recent = 2}, seeds, 1);
    play({.by = ScoreBy::kSum, .recent = 1, .sinks = 1}, seeds, 2000);
    play({.by = ScoreBy::kSum, .per_query = true, .recent = 3}, seeds, 4000);
    play({.by = ScoreBy::kSum, .recent = 2, .decay = 0.75F}, seeds, 6000);
    play({.by = ScoreBy::kLast, .recent = 1}, seeds, 8000);
    play({.by = ScoreBy::kNothing, .recent = 2, .sinks = 4}, seeds, 10000);
}

// Keys and values of retained tokens are in the slots of their tokens, whatever has moved.
TEST(SlotsRandom, CarryTheirKeysAndValues) {
    const KvLayout layout = {2, 16, DType::kF32, DType::kF16};
    Machine m;
    Slots store(layout, 1, 600, 600, 5);
    const SlotRule rule = {.by = ScoreBy::kSum, .recent = 20};
    Normal random(9);
    Rows keys(3000, 32), values(3000, 32);  // by token
    std::vector<ListedHead> lists(2);
    int64_t next = 0;
    for (const int64_t fresh : {500, 1, 1, 700, 1, 300, 1, 1, 1}) {
        const int64_t cached = store.counts.at<int32_t>(0, 0);
        std::vector<Weights> given(2);
        for (Weights& w : given) {
            for (int64_t i = 0; i < cached + fresh; ++i)
                w.push_back(static_cast<double>(static_cast<float>(random() * random())));
        }
        Entries entries(layout, cached + fresh, 30 + static_cast<uint32_t>(next));
        for (int64_t i = 0; i < fresh; ++i) {
            for (int64_t c = 0; c < 32; ++c) {
                keys(next + i, c) = entries.k.get(cached + i, c);
                values(next + i, c) = reference::rounded(entries.v.get(cached + i, c), DType::kF16);
            }
        }
        if (fresh > 1) {
            end_call(m, store, entries, rule, {0, cached, fresh, next}, given);
        } else {
            for (int64_t h = 0; h < 2; ++h) {
                for (int64_t i = 0; i < 16; ++i) {
                    store.staged_k.set(h * kMaxRows, i, keys(next, h * 16 + i));
                    store.staged_v.set(h * kMaxRows, i, values(next, h * 16 + i));
                }
            }
            end_step(m, store, rule, next, given);
        }
        for (size_t h = 0; h < 2; ++h) {
            lists[h].call(rule, 600, next, fresh, given[h]);
            ASSERT_EQ(store.kept(0, static_cast<int64_t>(h)), lists[h].tokens);
        }
        next += fresh;
        for (int64_t h = 0; h < 2; ++h) {
            for (int64_t s = 0; s < store.counts.at<int32_t>(h, 0); ++s) {
                const int64_t token = store.tokens.at<int32_t>(h, s);
                for (int64_t i = 0; i < 16; ++i) {
                    ASSERT_EQ(store.element(0, h, s, i, false), keys(token, h * 16 + i)) << token << " " << s;
                    ASSERT_EQ(store.element(0, h, s, i, true), values(token, h * 16 + i)) << token << " " << s;
                }
            }
        }
    }
    EXPECT_EQ(store.counts.at<int32_t>(0, 0), 600);
}

// More slots than a block has threads, so that each thread compares several: the least worthy is found in any slot.
TEST(SlotsWorked, TheLeastWorthyGoesFromAnySlot) {
    for (const int64_t least : {0, 1, 255, 256, 297}) {
        Machine m;
        Slots store(kOneHead, 1, 300, 300);
        const SlotRule rule = {.by = ScoreBy::kSum, .recent = 2};
        Weights weights(300, 2.0);
        weights[static_cast<size_t>(least)] = 1;
        Entries entries(kOneHead, 300, 3);
        end_call(m, store, entries, rule, {.cached = 0, .fresh = 300, .first_token = 0}, {weights});
        end_step(m, store, rule, 300, {Weights(301, 0.0)});
        Tokens want(301);
        std::iota(want.begin(), want.end(), 0);
        want.erase(want.begin() + least);
        EXPECT_EQ(store.kept(0, 0), want);
    }
}

// Heads whose budget becomes smaller than their count (shared budgets) still use the first slots.
TEST(SlotsRandom, HeadsShrinkAndGrowTogether) {
    const KvLayout layout = {2, 16, DType::kF32, DType::kF32};
    Machine m;
    Slots store(layout, 1, 40, 20, 5);
    const SlotRule rule = {.by = ScoreBy::kSum, .recent = 4};
    std::vector<ListedHead> lists(2);
    Normal random(4);
    int64_t next = 0;
    for (const auto& [fresh, a, b] : {std::tuple{30, 20, 20}, {10, 6, 34}, {1, 6, 34}, {5, 33, 7}, {60, 20, 20}}) {
        const int32_t budget[2] = {a, b};
        std::vector<Weights> given(2);
        int64_t cached = 0;
        for (size_t h = 0; h < 2; ++h) {
            store.budgets.at<int32_t>(static_cast<int64_t>(h), 0) = budget[h];
            cached = std::max(cached, static_cast<int64_t>(lists[h].tokens.size()));
            for (size_t i = 0; i < lists[h].tokens.size() + static_cast<size_t>(fresh); ++i) {
                given[h].push_back(static_cast<double>(random.below(1000)));
            }
        }
        Entries entries(layout, cached + fresh, 3);
        end_call(m, store, entries, rule, {0, cached, fresh, next}, given);
        for (size_t h = 0; h < 2; ++h) {
            lists[h].call(rule, budget[h], next, fresh, given[h]);
            ASSERT_EQ(store.kept(0, static_cast<int64_t>(h)), lists[h].tokens) << "after " << next;
        }
        next += fresh;
    }
}

TEST(SlotScores, AreSmoothedOverNeighboursOutsideTheWindow) {
    Machine m;
    const KvLayout layout = {1, 8, DType::kF32, DType::kF32};
    Slots store(layout, 1, 40, 40);
    const SlotRule rule = {.by = ScoreBy::kWindow, .recent = 8, .window = 8, .pool = 5};
    Weights w;
    Normal random(3);
    for (int i = 0; i < 30; ++i) w.push_back(static_cast<double>(static_cast<float>(random() * random())));
    Entries entries(layout, 30, 1);
    end_call(m, store, entries, rule, {0, 0, 30, 0}, {w});
    const std::vector<float> got = store.scored(0, 0);
    for (int64_t i = 0; i < 30; ++i) {
        double want = 0;
        for (int64_t j = std::max<int64_t>(0, i - 2); j <= std::min<int64_t>(21, i + 2); ++j)
            want += w[static_cast<size_t>(j)];
        EXPECT_NEAR(got[static_cast<size_t>(i)], i < 22 ? want / 5 : 0, 1e-6) << i;
    }
}

TEST(SlotScores, AreKeyNormsAndNumbersDrawnOnce) {
    Machine m;
    const KvLayout layout = {2, 24, DType::kF16, DType::kF16};
    for (const ScoreBy by : {ScoreBy::kKeyNorm, ScoreBy::kRandom}) {
        Slots store(layout, 1, 8, 8);
        const SlotRule rule = {.by = by, .recent = 2, .seed = 7, .first_head = 3};
        Entries entries(layout, 20, 40);
        end_call(m, store, entries, rule, {0, 0, 20, 0}, {{}, {}});
        const Rows keys = stored(entries.k, DType::kF16);
        for (int64_t h = 0; h < 2; ++h) {
            ListedHead want;
            Weights worths;
            for (int64_t t = 0; t < 20; ++t) {
                double square = 0;
                for (int64_t i = 0; i < 24; ++i) square += keys(t, h * 24 + i) * keys(t, h * 24 + i);
                worths.push_back(by == ScoreBy::kKeyNorm ? -square : static_cast<double>(random_score(rule, 0, h, t)));
            }
            want.call({.by = ScoreBy::kSum, .recent = 2}, 8, 0, 20, worths);
            EXPECT_EQ(store.kept(0, h), want.tokens);
            const std::vector<float> got = store.scored(0, h);
            for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want.scores[i], 1e-4);
        }
        store.staged_k.randomize(50);
        const Rows staged = stored(store.staged_k, DType::kF16);
        end_step(m, store, rule, 20, {});
        for (int64_t h = 0; h < 2; ++h) {
            double square = 0;
            for (int64_t i = 0; i < 24; ++i) square += staged(h * kMaxRows, i) * staged(h * kMaxRows, i);
            const double worth = by == ScoreBy::kKeyNorm ? -square : static_cast<double>(random_score(rule, 0, h, 20));
            EXPECT_NEAR(store.scored(0, h).back(), worth, 1e-4);
        }
        EXPECT_EQ(store.kept(0, 0).back(), 20);
        EXPECT_EQ(store.kept(0, 0).size(), 8U);
    }
}

/// KeyDiff's scores in f64: minus the cosine of each key with the mean of all unit keys.
Weights differences(const std::vector<std::vector<double>>& keys) {
    const auto length = [](const std::vector<double>& v) {
        double square = 0;
        for (const double x : v) square += x * x;
        return std::sqrt(square);
    };
    std::vector<double> mean(keys[0].size());
    for (const auto& key : keys) {
        for (size_t d = 0; d < mean.size(); ++d) mean[d] += key[d] / length(key);
    }
    Weights all;
    for (const auto& key : keys) {
        double dot = 0;
        for (size_t d = 0; d < mean.size(); ++d) dot += key[d] * mean[d];
        all.push_back(-dot / (length(key) * length(mean)));
    }
    return all;
}

// A prompt of 37 tokens, another call of 9 after the 16 that are retained, and 5 steps: all keys that a head has count.
TEST(SlotScores, AreDifferencesFromTheMeanKey) {
    for (const DType type : {DType::kF16, DType::kBF16, DType::kF32}) {
        for (const int64_t dim : {int64_t{24}, int64_t{64}, kMostHeadDim, int64_t{1024}}) {
            if (dim > kMostHeadDim && backend_name() != "cpu") continue;  // as all GPU kernels
            Machine m;
            const KvLayout layout = {2, dim, type, DType::kF16};
            Slots store(layout, 1, 16, 16);
            const SlotRule rule = {.by = ScoreBy::kKeyDiff, .recent = 3};
            std::vector<std::vector<std::vector<double>>> keys(2);  // by head and token
            std::vector<Tokens> kept(2);
            const auto add = [&](int64_t head, const Rows& rows, int64_t row, int64_t column) {
                std::vector<double>& key = keys[static_cast<size_t>(head)].emplace_back();
                for (int64_t d = 0; d < dim; ++d) key.push_back(rows(row, column + d));
                kept[static_cast<size_t>(head)].push_back(static_cast<int32_t>(keys[static_cast<size_t>(head)].size()) -
                                                          1);
            };
            const auto expect = [&](int64_t now) {
                for (int64_t h = 0; h < 2; ++h) {
                    Tokens& mine = kept[static_cast<size_t>(h)];
                    std::vector<std::vector<double>> here;
                    for (const int32_t t : mine) here.push_back(keys[static_cast<size_t>(h)][static_cast<size_t>(t)]);
                    const Weights scores = differences(here);
                    std::map<int32_t, double> of;
                    for (size_t i = 0; i < mine.size(); ++i) of[mine[i]] = scores[i];
                    Tokens order(mine.begin(), mine.end() - 3);
                    std::ranges::stable_sort(order, std::greater<>(), [&](int32_t t) { return of[t]; });
                    if (std::ssize(mine) > 16) {
                        order.resize(13);
                        std::ranges::sort(order);
                        order.insert(order.end(), mine.end() - 3, mine.end());
                        mine = order;
                    }
                    EXPECT_EQ(store.kept(0, h), mine) << now << " " << dim;
                    const std::vector<float> got = store.scored(0, h);
                    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], of[mine[i]], 3e-6) << now << " " << i;
                }
            };
            Entries entries(layout, 37, 40);
            const Rows first = stored(entries.k, type);
            for (int64_t t = 0; t < 37; ++t) {
                for (int64_t h = 0; h < 2; ++h) add(h, first, t, h * dim);
            }
            end_call(m, store, entries, rule, {0, 0, 37, 0}, {{}, {}});
            expect(37);
            Entries more(layout, 25, 41);  // the first 16 are those that are retained
            const Rows second = stored(more.k, type);
            for (int64_t t = 16; t < 25; ++t) {
                for (int64_t h = 0; h < 2; ++h) add(h, second, t, h * dim);
            }
            end_call(m, store, more, rule, {0, 16, 9, 37}, {{}, {}});
            expect(46);
            for (int64_t token = 46; token < 51; ++token) {
                store.staged_k.randomize(static_cast<uint32_t>(token));
                const Rows staged = stored(store.staged_k, type);
                for (int64_t h = 0; h < 2; ++h) add(h, staged, h * kMaxRows, 0);
                end_step(m, store, rule, token, {});
                expect(token + 1);
            }
        }
    }
}

TEST(Slots, RefuseWhatDoesNotFit) {
    Machine m;
    Slots store(kOneHead, 1, 4, 4);
    const SlotRule rule = {.by = ScoreBy::kSum, .recent = 2};
    EXPECT_TRUE(refused([&] { m->slot_step(store.view(), {}, rule, 0); }, "weights are required"));
    SlotRule none = rule;
    none.recent = 0;
    EXPECT_TRUE(refused([&] { m->slot_step(store.view(), {}, none, 0); }, "0 recent tokens"));
}

// Kernels check the counts and budgets of heads where they use them.
TEST(Slots, RefuseHeadsThatContradictThemselves) {
    const SlotRule rule = {.by = ScoreBy::kKeyNorm, .recent = 4};
    const auto refuses = [&](int32_t count, int32_t budget, const std::string& words, const auto& work) {
        Machine m(Phase::kDecode, 2, kSlotLimits);
        Slots store(kOneHead, 1, 6, budget);
        for (int32_t s = 0; s < 6; ++s) {
            store.tokens.at<int32_t>(0, s) = store.ranks.at<int32_t>(0, s) = store.order.at<int32_t>(0, s) = s;
            store.scores.set(0, s, 0);
        }
        store.counts.at<int32_t>(0, 0) = count;
        return refused(
            [&] {
                work(m, store);
                m.stream->synchronize();
            },
            words);
    };
    const auto step = [&](Machine& m, Slots& store) { m->slot_step(store.view(), {}, rule, 6); };
    EXPECT_TRUE(refuses(5, 4, "slot_step: a head has 5 tokens where 4 may be", step));
    EXPECT_TRUE(refuses(-1, 4, "slot_step: a head has -1 tokens where 4 may be", step));
    EXPECT_TRUE(refuses(5, 7, "slot_step: a head has 7 tokens where 6 may be", step));
    EXPECT_TRUE(refuses(3, 3, "slot_step: 4 recent tokens of 3 leave none to evict", step));
    Entries entries(kOneHead, 8, 3);
    entries.append(0);
    const SlotCall call = {.owner = 0, .cached = 4, .fresh = 4, .first_token = 6};
    const auto gather = [&](Machine& m, Slots& store) {
        m->slot_gather(entries.view(store), store.view(), store.order.tensor(), call);
    };
    EXPECT_TRUE(refuses(5, 6, "slot_gather: a head has 5 tokens where 4 may be", gather));
    Operand scores(DType::kF32, 1, 8), keys(DType::kI64, 1, 16);
    scores.randomize(1);
    const auto score = [&](Machine& m, Slots& store) {
        m->slot_scores(scores.tensor(), store.view(), entries.view(store), store.order.tensor(), {}, rule, call);
    };
    EXPECT_TRUE(refuses(5, 6, "slot_scores: a head has 5 tokens where 4 may be", score));
    const auto choose = [&](Machine& m, Slots& store) {
        m->slot_choose(store.view(), entries.view(store), store.order.tensor(), scores.tensor(), keys.tensor(), rule,
                       call);
    };
    EXPECT_TRUE(refuses(5, 6, "slot_choose: a head has 5 tokens where 4 may be", choose));
    EXPECT_TRUE(refuses(4, 7, "slot_choose: a head has 7 tokens where 6 may be", choose));
    EXPECT_TRUE(refuses(2, 3, "slot_choose: 4 recent tokens of 3 leave none to evict", choose));
}

}  // namespace
}  // namespace trireme::test
