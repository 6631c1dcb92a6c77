#pragma once
/// Evicting caches for tests: slots of owner layers whose heads retain their own tokens, and a reference with lists.

#include <algorithm>
#include <optional>

#include "tests/kernels/kv_harness.h"

namespace trireme::test {

/// Limits of a Kernels object that runs slot kernels: they need no scratch.
inline constexpr KernelLimits kSlotLimits = {.max_rows = 1, .max_k = 1, .max_n = 1, .heads = 1, .head_dim = 8};

/// The memory of a SlotKv, and of the entries of a call.
struct Slots {
    Slots(const KvLayout& l, int64_t n_owners, int64_t n_slots, int32_t budget, uint32_t seed = 1)
        : layout(l),
          owners(n_owners),
          slots(n_slots),
          tile_table(DType::kI64, owners * l.kv_heads, tiles()),
          staged_k(stored_type(l.k_type), owners * l.kv_heads * kMaxRows, stored_columns(l.k_type, l.head_dim)),
          staged_v(stored_type(l.v_type), owners * l.kv_heads * kMaxRows, stored_columns(l.v_type, l.head_dim)),
          tokens(DType::kI32, owners * l.kv_heads, slots),
          ranks(DType::kI32, owners * l.kv_heads, slots),
          scores(DType::kF32, owners * l.kv_heads, slots),
          counts(DType::kI32, owners * l.kv_heads, 1),
          budgets(DType::kI32, owners * l.kv_heads, 1),
          order(DType::kI32, l.kv_heads, slots),
          begins(DType::kI32, l.kv_heads, 1) {
        const size_t bytes = l.tile_bytes() / static_cast<size_t>(l.kv_heads) + 64;  // one head's tile, and a gap
        const int64_t n = owners * l.kv_heads * tiles();
        memory.resize(static_cast<size_t>(n) * bytes, static_cast<char>(0xff));
        std::vector<int64_t> places(static_cast<size_t>(n));
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin(), places.end(), std::mt19937(seed));
        for (int64_t i = 0; i < n; ++i) {
            tile_table.at<int64_t>(i / tiles(), i % tiles()) = static_cast<int64_t>(reinterpret_cast<uintptr_t>(
                memory.data() + static_cast<size_t>(places[static_cast<size_t>(i)]) * bytes));
        }
        for (int64_t i = 0; i < owners * l.kv_heads; ++i) {
            counts.at<int32_t>(i, 0) = 0;
            budgets.at<int32_t>(i, 0) = budget;
        }
    }
    int64_t tiles() const { return tiles_for(slots); }
    SlotKv view() {
        const KvLayout& l = layout;
        const auto shaped = [](Operand& o, const Shape& s) { return Tensor(o.tensor().data(), o.tensor().dtype(), s); };
        const auto staged = [&](Operand& o) { return shaped(o, {owners, l.kv_heads, kMaxRows, o.cols()}); };
        const Shape all{owners, l.kv_heads, slots};
        return {.layout = l,
                .tiles = shaped(tile_table, {owners, l.kv_heads, tiles()}),
                .staged_k = staged(staged_k),
                .staged_v = staged(staged_v),
                .tokens = shaped(tokens, all),
                .ranks = shaped(ranks, all),
                .scores = shaped(scores, all),
                .counts = shaped(counts, {owners, l.kv_heads}),
                .budgets = shaped(budgets, {owners, l.kv_heads})};
    }
    /// One owner layer in the form that attention takes.
    LayerKv layer(int64_t owner, const Tensor& angles = {}) {
        const SlotKv all = view();
        const auto of = [&](const Tensor& t, const Shape& s) {
            return Tensor(
                static_cast<char*>(t.data()) + static_cast<size_t>(owner) * t.bytes() / static_cast<size_t>(owners),
                t.dtype(), s);
        };
        const KvLayout& l = layout;
        return {.layout = l,
                .tiles = of(all.tiles, {l.kv_heads, tiles()}),
                .staged_k = of(all.staged_k, l.staged_shape(l.k_type)),
                .staged_v = of(all.staged_v, l.staged_shape(l.v_type)),
                .counts = of(all.counts, {l.kv_heads}),
                .ranks = of(all.ranks, {l.kv_heads, slots}),
                .angles = angles};
    }
    int64_t row(int64_t owner, int64_t head) const { return owner * layout.kv_heads + head; }
    /// A head's tokens in the order of ranks; scored(): their scores.
    std::vector<int32_t> kept(int64_t owner, int64_t head) {
        return by_rank<int32_t>(owner, head, [&](int64_t s) { return tokens.at<int32_t>(row(owner, head), s); });
    }
    std::vector<float> scored(int64_t owner, int64_t head) {
        return by_rank<float>(owner, head, [&](int64_t s) { return scores.at<float>(row(owner, head), s); });
    }
    /// Element `i` of the key or value of a slot.
    double element(int64_t owner, int64_t head, int64_t slot, int64_t i, bool value) {
        const auto* tile = reinterpret_cast<const char*>(tile_table.at<int64_t>(row(owner, head), slot / kTileTokens));
        const size_t values = layout.k_bytes() / static_cast<size_t>(layout.kv_heads);
        return tile_element(layout, tile, tile + values, slot % kTileTokens, i, value);
    }
    bool intact() const {
        return tile_table.intact() && staged_k.intact() && staged_v.intact() && tokens.intact() && ranks.intact() &&
               scores.intact() && counts.intact() && budgets.intact() && order.intact() && begins.intact();
    }

    KvLayout layout;
    int64_t owners, slots;
    Operand tile_table, staged_k, staged_v, tokens, ranks, scores, counts, budgets, order, begins;
    BackendVector<char> memory;

  private:
    template <class T, class Get>
    std::vector<T> by_rank(int64_t owner, int64_t head, const Get& get) {
        std::vector<T> all(static_cast<size_t>(counts.at<int32_t>(row(owner, head), 0)));
        std::vector<bool> seen(all.size());
        for (size_t s = 0; s < all.size(); ++s) {
            const auto rank = static_cast<size_t>(ranks.at<int32_t>(row(owner, head), static_cast<int64_t>(s)));
            EXPECT_TRUE(rank < all.size() && !seen[rank]) << "slot " << s << " has the rank " << rank;
            if (rank >= all.size()) continue;
            seen[rank] = true;
            all[rank] = get(static_cast<int64_t>(s));
        }
        return all;
    }
};

/// The reference for one head: lists, oldest token first, as h2o.md 8.1 specifies.
struct ListedHead {
    std::vector<int32_t> tokens;
    std::vector<double> scores;

    /// Ends a call of `fresh` tokens; `weights`: the attention that each token received, the fresh ones last.
    void call(const SlotRule& rule, int32_t budget, int64_t first_token, int64_t fresh, std::vector<double> weights) {
        for (int64_t i = 0; i < fresh; ++i) {
            tokens.push_back(static_cast<int32_t>(first_token + i));
            scores.push_back(0);
        }
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (rule.by == ScoreBy::kSum) {
                scores[i] =
                    scores[i] * std::pow(static_cast<double>(rule.decay), static_cast<double>(fresh)) + weights[i];
            } else if (rule.by == ScoreBy::kLast) {
                scores[i] = weights[i];
            }
        }
        const auto n = static_cast<int64_t>(tokens.size());
        if (n <= budget) return;
        std::vector<size_t> rank(static_cast<size_t>(n - rule.recent));
        std::iota(rank.begin(), rank.end(), 0);
        const auto value = [&](size_t i) {
            if (tokens[i] < rule.sinks) return std::numeric_limits<double>::infinity();
            return rule.per_query ? scores[i] / static_cast<double>(first_token + fresh - tokens[i]) : scores[i];
        };
        std::ranges::stable_sort(rank, [&](size_t a, size_t b) { return value(a) > value(b); });
        rank.resize(static_cast<size_t>(budget - rule.recent));
        for (int64_t i = n - rule.recent; i < n; ++i) rank.push_back(static_cast<size_t>(i));
        std::ranges::sort(rank);
        ListedHead left;
        for (const size_t i : rank) {
            left.tokens.push_back(tokens[i]);
            left.scores.push_back(scores[i]);
        }
        *this = left;
    }
};

/// The entries of a call in tiles, as prefill writes them: K and V of each entry are random, or set by the test.
struct Entries {
    Entries(const KvLayout& l, int64_t n, uint32_t seed)
        : kv(l, 1, std::max<int64_t>(1, tiles_for(n))), k(DType::kF32, n, kv.width()), v(DType::kF32, n, kv.width()) {
        k.randomize(seed);
        v.randomize(seed + 1);
    }
    /// Writes rows [first, n).
    void append(Machine& m, int64_t first) {
        RowSet rows(k.rows() - first);
        for (int64_t r = 0; r < rows.slots.rows(); ++r) rows.set(r, 0, first + r, {0});
        if (rows.slots.rows() == 0) return;
        m->kv_append(kv.view(), k.tensor().slice_rows(first, k.rows() - first),
                     v.tensor().slice_rows(first, k.rows() - first), rows.view(k.rows()));
        m.stream->synchronize();
    }
    void append(int64_t first) {
        Machine m(Phase::kPrefill, 2, kSlotLimits);
        append(m, first);
    }
    LayerKv view(Slots& slots) {
        LayerKv layer = kv.view();
        layer.begins = slots.begins.vector();
        return layer;
    }
    Kv kv;
    Operand k, v;
};

/// The steps of a call after attention. `weights`: [heads][entries of the longest head], right-aligned.
inline void end_call(Machine& m, Slots& slots, Entries& entries, const SlotRule& rule, const SlotCall& call,
                     const std::vector<std::vector<double>>& weights) {
    const int64_t heads = slots.layout.kv_heads, n = call.entries();
    Operand given(DType::kF32, heads, n), scores(DType::kF32, heads, n), keys(DType::kI64, heads, 2 * n);
    for (int64_t h = 0; h < heads; ++h) {
        const auto& w = weights[static_cast<size_t>(h)];
        const int64_t begin = n - static_cast<int64_t>(w.size());
        for (int64_t e = begin; e < n; ++e) given.set(h, e, w[static_cast<size_t>(e - begin)]);
    }
    const LayerKv from = entries.view(slots);
    m->slot_gather(from, slots.view(), slots.order.tensor(), call);
    m.stream->synchronize();
    for (int64_t h = 0; h < heads; ++h) {
        EXPECT_EQ(slots.begins.at<int32_t>(h, 0), call.cached - slots.counts.at<int32_t>(slots.row(call.owner, h), 0));
    }
    entries.append(m, call.cached);
    const bool asks = (rule.counts_all() && call.fresh > 0) || rule.by == ScoreBy::kWindow;
    m->slot_scores(scores.tensor(), slots.view(), from, slots.order.tensor(), asks ? given.tensor() : Tensor(), rule,
                   call);
    m->slot_choose(slots.view(), from, slots.order.tensor(), scores.tensor(), keys.tensor(), rule, call);
    m.stream->synchronize();
    EXPECT_TRUE(slots.intact() && scores.intact() && keys.intact());
}

/// The steps of a decode step after attention: weights [owner * kv_heads + head][by rank, the new token last].
inline void end_step(Machine& m, Slots& slots, const SlotRule& rule, int64_t token,
                     const std::vector<std::vector<double>>& weights) {
    const int64_t rows = slots.owners * slots.layout.kv_heads;
    Operand given(DType::kF32, rows, slots.slots + 1);
    for (int64_t r = 0; r < rows && rule.counts_all(); ++r) {
        const int32_t count = slots.counts.at<int32_t>(r, 0);
        const auto& w = weights[static_cast<size_t>(r)];
        for (int64_t s = 0; s < count; ++s) given.set(r, s, w[static_cast<size_t>(slots.ranks.at<int32_t>(r, s))]);
        given.set(r, count, w[static_cast<size_t>(count)]);
    }
    const Tensor shaped(given.tensor().data(), DType::kF32, {slots.owners, slots.layout.kv_heads, slots.slots + 1});
    m->slot_step(slots.view(), rule.counts_all() ? shaped : Tensor(), rule, token);
    m.stream->synchronize();
    EXPECT_TRUE(slots.intact());
}

}  // namespace trireme::test
