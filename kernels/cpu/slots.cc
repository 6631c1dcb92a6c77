/// Slots around a call, on the CPU: gathers entries, scores them and evicts (kernels/slots.h).

#include "kernels/slots.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/cpu/head_slots.h"
#include "kernels/cpu/key_diff.h"
#include "kernels/cpu/kv_access.h"

namespace trireme {

void slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    const KvAccess target(to);
    auto* begins = static_cast<int32_t*>(to.begins.data());
    const int64_t heads = kv.layout.kv_heads;
    for (int64_t e = 0; e < call.cached; e += kTileTokens) target.check_tile(0, e, "slot_gather");
    for_heads(heads, call.cached * kv.layout.head_dim, [&](int64_t head) {
        const HeadSlots h(kv, call.owner, head);
        auto* by_rank = static_cast<int32_t*>(order.data()) + head * kv.slots();
        check_tokens("slot_gather", h.count, std::min(call.cached, h.slots));
        const int64_t begin = call.cached - h.count;
        begins[head] = static_cast<int32_t>(begin);
        for (int64_t s = 0; s < h.count; ++s) {
            by_rank[h.ranks[s]] = static_cast<int32_t>(s);
            const int64_t entry = begin + h.ranks[s];
            char* tile = target.tile(0, entry / kTileTokens);
            target.keys(tile, head).copy(entry % kTileTokens, h.keys(s), s % kTileTokens, 1);
            std::memcpy(target.value(tile, head, entry % kTileTokens), h.value(s), h.v_bytes());
        }
    });
}

void slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                 const Tensor& weights, const SlotRule& rule, const SlotCall& call) {
    const KvAccess source(from);
    const int64_t heads = kv.layout.kv_heads, entries = call.entries();
    for_heads(heads, entries * (rule.reads_keys() ? kv.layout.head_dim : 4), [&](int64_t head) {
        const HeadSlots h(kv, call.owner, head);
        check_tokens("slot_scores", h.count, std::min(call.cached, h.slots));
        const auto* by_rank = static_cast<const int32_t*>(order.data()) + head * kv.slots();
        float* to = static_cast<float*>(scores.data()) + head * scores.dim(1);
        const float* weight = weights ? static_cast<const float*>(weights.data()) + head * weights.dim(1) : nullptr;
        const int64_t begin = call.cached - h.count, end = entries - std::min<int64_t>(rule.window, entries - begin);
        if (rule.by == ScoreBy::kKeyDiff) {
            const HeadKeys keys = {static_cast<const int64_t*>(from.tiles.data()), source.keys_of_head(head),
                                   h.layout.k_type, h.layout.head_dim};
            key_differences(keys, begin, entries, /*staged=*/nullptr, to);
            return;
        }
        for (int64_t e = begin; e < entries; ++e) {
            const bool old = e < call.cached;
            const float before = old ? h.scores[by_rank[e - begin]] : 0;
            if (rule.counts_all() && call.fresh > 0) {
                to[e] = attended_score(rule, before, weight[e], call.fresh);
            } else if (rule.by == ScoreBy::kWindow) {
                to[e] = e < end ? smoothed(weight, begin, end, e, rule.pool) : 0;
            } else if (old) {
                to[e] = before;
            } else {
                const int64_t token = call.first_token + e - call.cached;
                const KeyBlocks keys = source.keys(source.tile(0, e / kTileTokens), head);
                to[e] = first_score(
                    rule, h.layout, call.owner, head, token,
                    [&](char* piece, int64_t first, int64_t n) { keys.get(e % kTileTokens, piece, first, n); });
            }
        }
    });
}

namespace {

/// Selects the entries that a head retains, by priority: their keys become UINT64_MAX, those of the others 0.
void choose(const HeadSlots& h, const int32_t* by_rank, const float* scores, uint64_t* keys, const SlotRule& rule,
            const SlotCall& call) {
    const int64_t begin = call.cached - h.count, n = call.entries() - begin, tokens = call.first_token + call.fresh;
    const auto token_of = [&](int64_t e) {
        return e < call.cached ? int64_t{h.tokens[by_rank[e - begin]]} : call.first_token + e - call.cached;
    };
    const int64_t budget = h.budget - call.reserve;
    if (n <= budget) {
        std::fill_n(keys, n, UINT64_MAX);
        return;
    }
    const int64_t candidates = n - rule.recent, heavy = budget - rule.recent;
    check(heavy >= 0 && candidates > 0, "slot_choose: {} recent tokens of {} leave none to evict", rule.recent, budget);
    for (int64_t i = 0; i < candidates; ++i) keys[i] = worth(rule, scores[begin + i], token_of(begin + i), tokens);
    uint64_t least = UINT64_MAX;  // if `heavy` is 0, only the recent ones are retained
    if (heavy > 0) {
        uint64_t* sorted = keys + n;
        std::copy_n(keys, candidates, sorted);
        std::nth_element(sorted, sorted + (heavy - 1), sorted + candidates, std::greater<>());
        least = sorted[heavy - 1];
    }
    for (int64_t i = 0; i < candidates; ++i) keys[i] = heavy > 0 && keys[i] >= least ? UINT64_MAX : 0;
    std::fill_n(keys + candidates, rule.recent, UINT64_MAX);
}

}  // namespace

void slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores, const Tensor& keys,
                 const SlotRule& rule, const SlotCall& call) {
    const KvAccess source(from);
    const int64_t heads = kv.layout.kv_heads;
    const auto put_entry = [&](const HeadSlots& h, int64_t slot, int64_t e) {
        char* tile = source.tile(0, e / kTileTokens);
        h.put(slot, source.keys(tile, h.head), e % kTileTokens, source.value(tile, h.head, e % kTileTokens));
    };
    for_heads(heads, call.entries() * kv.layout.head_dim, [&](int64_t head) {
        HeadSlots h(kv, call.owner, head);
        check_tokens("slot_choose", h.count, std::min(call.cached, h.slots));
        check_tokens("slot_choose", h.budget, h.slots);
        const auto* by_rank = static_cast<const int32_t*>(order.data()) + head * kv.slots();
        const float* score = static_cast<const float*>(scores.data()) + head * scores.dim(1);
        auto* stays = static_cast<uint64_t*>(keys.data()) + head * keys.dim(1);
        choose(h, by_rank, score, stays, rule, call);
        // Retained tokens that have a slot keep it; the others take free slots, in the order of slots.
        const int64_t begin = call.cached - h.count, before = h.count, n = call.entries() - begin;
        for (int64_t s = 0; s < before; ++s) {
            const int64_t rank = h.ranks[s];
            h.scores[s] = score[begin + rank];
            if (stays[rank] == 0) h.ranks[s] = -1;
        }
        int64_t free = 0, next = 0;
        for (int64_t i = 0; i < n; ++i) {
            if (stays[i] == 0) continue;
            const int64_t rank = next++;
            if (i < before) {
                h.ranks[by_rank[i]] = static_cast<int32_t>(rank);
                continue;
            }
            while (free < before && h.ranks[free] >= 0) ++free;
            const int64_t e = begin + i;
            if (!call.retiled) put_entry(h, free, e);
            h.tokens[free] = static_cast<int32_t>(call.first_token + e - call.cached);
            h.scores[free] = score[e];
            h.ranks[free] = static_cast<int32_t>(rank);
            ++free;
        }
        for (int64_t s = next; s < before; ++s) {  // the budget has shrunk: move tokens into the first slots
            if (h.ranks[s] < 0) continue;
            while (h.ranks[free] >= 0) ++free;
            if (!call.retiled) h.put(free, h.keys(s), s % kTileTokens, h.value(s));
            h.tokens[free] = h.tokens[s];
            h.scores[free] = h.scores[s];
            h.ranks[free] = h.ranks[s];
        }
        h.count = static_cast<int32_t>(next);
        if (!call.retiled) return;
        for (int64_t i = 0, rank = 0; i < n; ++i) {  // stays[rank] = the entry that now has this rank
            if (stays[i] != 0) stays[rank++] = static_cast<uint64_t>(begin + i);
        }
        for (int64_t slot = 0; slot < next; ++slot) put_entry(h, slot, static_cast<int64_t>(stays[h.ranks[slot]]));
    });
}

}  // namespace trireme
