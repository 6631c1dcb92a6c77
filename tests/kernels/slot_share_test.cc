#include <tuple>

#include "kernels/slots.h"
#include "tests/kernels/slots_harness.h"

namespace trireme::test {
namespace {

constexpr KvLayout kLayout = {2, 16, DType::kF32, DType::kF16};

/// Four heads of a layer, two on each of two ranks. Keys and values contain the number of their token.
struct Shared {
    Shared(int64_t tokens, int64_t least, SlotRule r, uint32_t seed) : rule(r), share{tokens, least}, random(seed) {
        const int64_t slots = 4 * tokens - 3 * (least + rule.recent), own = 4 * tokens - 2 * (least + rule.recent);
        for (int rank = 0; rank < 2; ++rank) {
            stores.push_back(std::make_unique<Slots>(kLayout, 2, slots, static_cast<int32_t>(tokens), seed));
            const auto bytes = static_cast<int64_t>(kLayout.tile_bytes()) / kLayout.kv_heads;
            tiles.push_back(std::make_unique<Operand>(DType::kU8, own / kTileTokens + kLayout.kv_heads, bytes));
        }
        for (int64_t h = 0; h < 4; ++h) rows.at<int32_t>(h, 0) = static_cast<int32_t>(5 - h);  // no head has row 0 or 1
    }

    int64_t fullest() const {
        size_t most = 0;
        for (const ListedHead& l : lists) most = std::max(most, l.tokens.size());
        return static_cast<int64_t>(most);
    }
    Slots& store(size_t head) { return *stores[head / 2]; }

    /// Returns how many tokens of each scored list are retained. Of equal tokens, the one of the lower head is worth
    /// more.
    std::vector<int32_t> wanted(const std::vector<ListedHead>& scored, int64_t reserve) const {
        const int64_t recent = rule.recent - reserve;
        struct One {
            bool sink;
            double score;
            int32_t token;
            size_t head;
        };
        std::vector<int32_t> stay;
        int64_t all = 0;
        for (const ListedHead& l : scored) {
            stay.push_back(static_cast<int32_t>(l.tokens.size()));
            all += stay.back();
        }
        const int64_t room = share.tokens - reserve;
        if (all <= 4 * room) return stay;
        std::vector<One> rest;
        const auto better = [](const One& a, const One& b) {
            return std::tuple(!a.sink, -a.score, a.token, a.head) < std::tuple(!b.sink, -b.score, b.token, b.head);
        };
        int64_t left = 4 * (room - recent);
        for (size_t h = 0; h < 4; ++h) {
            std::vector<One> own;
            for (size_t i = 0; i + static_cast<size_t>(recent) < scored[h].tokens.size(); ++i) {
                const int32_t token = scored[h].tokens[i];
                own.push_back({token < rule.sinks, token < rule.sinks ? 0 : scored[h].scores[i], token, h});
            }
            std::ranges::sort(own, better);
            const int64_t least = std::min(share.least, static_cast<int64_t>(own.size()));
            rest.insert(rest.end(), own.begin() + least, own.end());
            stay[h] = static_cast<int32_t>(std::min<int64_t>(stay[h], recent) + least);
            left -= least;
        }
        std::ranges::sort(rest, better);
        for (int64_t i = 0; i < left; ++i) ++stay[rest[static_cast<size_t>(i)].head];
        return stay;
    }

    /// A call of owner 1, the second of two owner layers.
    void call(int64_t fresh, int64_t reserve = 0) {
        const SlotCall c = {
            .owner = 1, .cached = fullest(), .fresh = fresh, .first_token = next, .reserve = reserve, .retiled = true};
        const int64_t n = c.entries();
        std::vector<ListedHead> scored = lists;
        Operand keys(DType::kI64, 6, n);
        std::vector<std::unique_ptr<Operand>> scores, scratch;
        std::vector<std::unique_ptr<Entries>> entries;
        SlotRule r = rule;
        for (size_t rank = 0; rank < 2; ++rank) {
            Slots& s = *stores[rank];
            Operand weights(DType::kF32, 2, n), mine(DType::kI64, 2, n);
            for (size_t h = 2 * rank; h < 2 * rank + 2; ++h) {
                std::vector<double> w;
                for (size_t i = 0; i < lists[h].tokens.size() + static_cast<size_t>(fresh); ++i)
                    w.push_back(fresh == 0 ? 0 : static_cast<double>(random.below(h == 1 ? 90 : 60)));
                const int64_t begin = n - static_cast<int64_t>(w.size());
                for (int64_t e = begin; e < n; ++e)
                    weights.set(static_cast<int64_t>(h % 2), e, w[static_cast<size_t>(e - begin)]);
                scored[h].call(rule, INT32_MAX, next, fresh, w);
            }
            Entries& e = *entries.emplace_back(std::make_unique<Entries>(kLayout, n, 7));
            for (int64_t i = 0; i < fresh; ++i) {
                for (int64_t x = 0; x < 32; ++x) {
                    e.k.set(c.cached + i, x, static_cast<double>(next + i) + 4096.0 * static_cast<double>(x / 16));
                    e.v.set(c.cached + i, x, static_cast<double>((next + i) % 2000));
                }
            }
            const LayerKv from = e.view(s);
            m->slot_gather(from, s.view(), s.order.tensor(), c);
            m.stream->synchronize();
            e.append(c.cached);
            Operand& score = *scores.emplace_back(std::make_unique<Operand>(DType::kF32, 2, n));
            m->slot_scores(score.tensor(), s.view(), from, s.order.tensor(), fresh > 0 ? weights.tensor() : Tensor(), r,
                           c);
            m->slot_keys(mine.tensor(), s.view(), s.order.tensor(), score.tensor(), r, c);
            m.stream->synchronize();
            for (size_t h = 2 * rank; h < 2 * rank + 2; ++h) {
                for (int64_t i = 0; i < n; ++i)
                    keys.at<int64_t>(5 - static_cast<int64_t>(h), i) = mine.at<int64_t>(static_cast<int64_t>(h % 2), i);
            }
        }
        const std::vector<int32_t> stay = wanted(scored, reserve);
        int32_t all = 0, most = 0;
        for (const int32_t s : stay) all += s;
        r.recent -= static_cast<int32_t>(reserve);
        for (size_t rank = 0; rank < 2; ++rank) {
            Slots& s = *stores[rank];
            r.first_head = static_cast<int32_t>(2 * rank);
            Operand all_keys = keys, largest(DType::kI32, 2, 1), room(DType::kI64, 2, 2 * n);
            largest.at<int32_t>(0, 0) = -7;
            m->slot_share(s.view(), tiles[rank]->tensor(), all_keys.tensor(), rows.vector(), largest.vector(), share, r,
                          c);
            m->slot_choose(s.view(), entries[rank]->view(s), s.order.tensor(), scores[rank]->tensor(), room.tensor(), r,
                           c);
            m.stream->synchronize();
            EXPECT_TRUE(s.intact() && tiles[rank]->intact() && all_keys.intact() && largest.intact());
            most = largest.at<int32_t>(1, 0);
            EXPECT_EQ(largest.at<int32_t>(0, 0), -7);
        }
        for (size_t h = 0; h < 4; ++h) {
            scored[h].call(r, stay[h], next + fresh, 0, std::vector<double>(scored[h].tokens.size()));
            lists[h] = scored[h];
        }
        next += fresh;
        expect();
        int32_t largest = 0;
        for (size_t h = 0; h < 4; ++h) {
            const int32_t budget = store(h).budgets.at<int32_t>(store(h).row(1, static_cast<int64_t>(h % 2)), 0);
            EXPECT_EQ(budget, stay[h] + (4 * share.tokens - all) / 4) << h;
            EXPECT_GE(budget, share.least + rule.recent) << h;
            largest = std::max(largest, budget);
        }
        EXPECT_EQ(most, largest);
    }

    void step() {
        std::vector<std::vector<double>> weights;
        for (const ListedHead& l : lists) {
            auto& w = weights.emplace_back();
            for (size_t i = 0; i <= l.tokens.size(); ++i) w.push_back(static_cast<double>(random.below(30)));
        }
        for (size_t rank = 0; rank < 2; ++rank) {
            Slots& s = *stores[rank];
            for (int64_t h = 0; h < 2; ++h) {
                for (int64_t i = 0; i < 16; ++i) {
                    s.staged_k.set(s.row(1, h) * kMaxRows, i,
                                   static_cast<double>(next) + 4096.0 * static_cast<double>(h));
                    s.staged_v.set(s.row(1, h) * kMaxRows, i, static_cast<double>(next % 2000));
                }
            }
            // Owner 0 takes part in steps only: its heads have no tokens, or a few.
            std::vector<std::vector<double>> given;
            for (int64_t h = 0; h < 2; ++h)
                given.emplace_back(static_cast<size_t>(s.counts.at<int32_t>(s.row(0, h), 0)) + 1, 0.0);
            given.push_back(weights[2 * rank]);
            given.push_back(weights[2 * rank + 1]);
            end_step(m, s, rule, next, given);
        }
        for (size_t h = 0; h < 4; ++h) {
            const int32_t budget = store(h).budgets.at<int32_t>(store(h).row(1, static_cast<int64_t>(h % 2)), 0);
            lists[h].call(rule, budget, next, 1, weights[h]);
        }
        ++next;
        expect();
    }

    void expect() {
        for (size_t h = 0; h < 4; ++h) {
            Slots& s = store(h);
            const auto head = static_cast<int64_t>(h % 2);
            ASSERT_EQ(s.kept(1, head), lists[h].tokens) << "head " << h << ", " << next << " tokens";
            const std::vector<float> scores = s.scored(1, head);
            for (size_t i = 0; i < scores.size(); ++i) ASSERT_EQ(scores[i], lists[h].scores[i]);
            for (int64_t slot = 0; slot < static_cast<int64_t>(lists[h].tokens.size()); ++slot) {
                const int64_t token = s.tokens.at<int32_t>(s.row(1, head), slot);
                ASSERT_EQ(s.element(1, head, slot, 3, false), static_cast<double>(token + 4096 * head)) << slot;
                ASSERT_EQ(s.element(1, head, slot, 15, true), static_cast<double>(token % 2000)) << slot;
            }
        }
    }

    SlotRule rule;
    SlotShare share;
    Normal random;
    Machine m;
    std::vector<std::unique_ptr<Slots>> stores;   // by rank
    std::vector<std::unique_ptr<Operand>> tiles;  // by rank: tiles for the heads of owner 1
    Operand rows = Operand(DType::kI32, 4, 1);
    std::vector<ListedHead> lists = std::vector<ListedHead>(4);
    int64_t next = 0;
};

// Calls, steps, and calls that reserve room; heads are given other tiles in every call. Scores are whole numbers, many
// of them equal.
TEST(SlotShare, KeepsWhatIsWorthMostInAnyHead) {
    for (const auto& [tokens, least, recent, sinks] :
         {std::tuple{20, 3, 4, 0}, {20, 0, 4, 0}, {24, 20, 4, 2}, {300, 40, 20, 3}, {9, 2, 1, 5}}) {
        Shared heads(tokens, least, {.by = ScoreBy::kSum, .recent = recent, .sinks = sinks},
                     static_cast<uint32_t>(tokens));
        heads.call(tokens - 2);
        for (int i = 0; i < 5; ++i) heads.step();
        for (const int64_t fresh : {tokens, 1, 2 * tokens, 3}) {
            heads.call(fresh);
            for (int i = 0; i < 3; ++i) heads.step();
        }
        if (recent < 2) continue;
        heads.call(0, recent - 1);
        heads.call(recent - 1);
        heads.call(0, recent / 2);
        heads.step();
        heads.call(tokens);
    }
}

// Unlike heads with budgets of their own: a slot that one head gives up goes to another head.
TEST(SlotShare, GivesAHeadWhatAnotherDoesNotNeed) {
    Shared heads(12, 1, {.by = ScoreBy::kSum, .recent = 2}, 3);
    heads.call(60);
    const auto size = [&](size_t h) { return heads.lists[h].tokens.size(); };
    EXPECT_EQ(size(0) + size(1) + size(2) + size(3), 48U);
    EXPECT_GT(size(1), 17U);  // its weights are up to 1.5 times the others'
}

TEST(SlotShare, SaysWhatIsWrong) {
    Shared heads(20, 3, {.by = ScoreBy::kSum, .recent = 4}, 1);
    Slots& s = *heads.stores[0];
    Machine m;
    Operand keys(DType::kI64, 6, 30), largest(DType::kI32, 2, 1);
    const auto share = [&](const SlotShare& shared, const SlotCall& c) {
        m->slot_share(s.view(), heads.tiles[0]->tensor(), keys.tensor(), heads.rows.vector(), largest.vector(), shared,
                      heads.rule, c);
        m.stream->synchronize();
    };
    const SlotCall call = {.owner = 1, .cached = 0, .fresh = 30};
    EXPECT_THROW(share({20, 17}, call), Error);                                   // least and recent exceed the budget
    EXPECT_THROW(share({20, 3}, {.owner = 2, .cached = 0, .fresh = 30}), Error);  // no such owner
    EXPECT_THROW(share({20, 3}, {.owner = 1, .cached = 0, .fresh = 31}), Error);  // the keys are of 30 entries
    heads.rows.at<int32_t>(2, 0) = 6;
    EXPECT_THROW(share({20, 3}, call), Error);  // there is no row 6 of keys
}

}  // namespace
}  // namespace trireme::test
