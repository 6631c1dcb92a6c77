/// Slots that tokens take and leave, on the CPU: scores after a step, who goes, and what a prompt leaves behind
/// (kernels/slots.h).

#include "kernels/slots.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/cpu/head_slots.h"
#include "kernels/cpu/kv_access.h"

namespace trireme {
namespace {

float element(DType type, const char* row, int64_t i) {
    if (type == DType::kF16) return static_cast<float>(reinterpret_cast<const f16*>(row)[i]);
    if (type == DType::kBF16) return static_cast<float>(reinterpret_cast<const bf16*>(row)[i]);
    return reinterpret_cast<const float*>(row)[i];
}

float square(DType type, const char* row, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = std::fma(element(type, row, i), element(type, row, i), sum);
    return sum;
}

/// What a token is worth when it comes, before attention has seen it.
float first_score(const SlotRule& rule, const KvLayout& l, int64_t owner, int64_t head, int64_t token,
                  const char* key) {
    if (rule.by == ScoreBy::kKeyNorm) return -square(l.k_type, key, l.head_dim);
    if (rule.by == ScoreBy::kRandom) return random_score(rule, owner, head, token);
    return 0;
}

}  // namespace

void pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                  const Tensor& kv_of_head, const Tensor& shares, HeadPool pool) {
    const auto* kv_head = static_cast<const int32_t*>(kv_of_head.data());
    const auto* share = static_cast<const float*>(shares.data());
    const int64_t owners = out.dim(0), heads = kv_of_head.rows(), kv_heads = out.dim(1), n = out.dim(2);
    const int64_t width = weights.dim(2);
    const auto of_head = [&](int64_t owner, int64_t h, float* to) {
        const auto* w = static_cast<const float*>(weights.data()) + (owner * heads + h) * width;
        const float* total = tops ? static_cast<const float*>(totals.data()) + (owner * heads + h) * 2 : nullptr;
        for (int64_t first = 0; first < n; first += kTileTokens) {
            float scale = share[h];
            if (tops) {
                const auto* top = static_cast<const float*>(tops.data()) + (owner * heads + h) * tops.dim(2);
                scale *= std::exp2(top[first / kTileTokens] - total[0]) / total[1];
            }
            const int64_t end = std::min(n, first + kTileTokens);
            for (int64_t j = first; j < end; ++j) {
                const float x = w[j] * scale;
                to[j] = pool == HeadPool::kMax ? std::max(to[j], x) : to[j] + x;
            }
        }
    };
    for_heads(owners * kv_heads, n * heads / kv_heads, [&](int64_t i) {
        float* to = static_cast<float*>(out.data()) + i * n;
        std::fill_n(to, n, 0.0F);
        for (int64_t h = 0; h < heads; ++h) {
            if (kv_head[h] == i % kv_heads && share[h] != 0) of_head(i / kv_heads, h, to);
        }
    });
}

void slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) {
    const int64_t heads = kv.layout.kv_heads;
    for_heads(kv.owners() * heads, kv.slots() * 4, [&](int64_t i) {
        HeadSlots h(kv, i / heads, i % heads);
        const float* weight = weights ? static_cast<const float*>(weights.data()) + i * weights.dim(2) : nullptr;
        float fresh = first_score(rule, h.layout, i / heads, h.head, token, h.staged_k);
        if (rule.counts_all()) {
            for (int64_t s = 0; s < h.count; ++s) h.scores[s] = attended_score(rule, h.scores[s], weight[s], 1);
            fresh = attended_score(rule, 0, weight[h.count], 1);
        }
        check_tokens("slot_step", h.budget, h.slots);
        check_tokens("slot_step", h.count, h.budget);
        int64_t slot = h.count;
        if (h.count < h.budget) {
            h.ranks[slot] = h.count++;
        } else {  // count + 1 tokens, of which the last `recent` stay: the fresh one and the youngest of the others
            uint64_t least = UINT64_MAX;
            for (int64_t s = 0; s < h.count; ++s) {
                if (h.ranks[s] >= h.count + 1 - rule.recent) continue;
                const uint64_t w = worth(rule, h.scores[s], h.tokens[s], token + 1);
                if (w > least) continue;
                least = w;
                slot = s;
            }
            check(slot < h.count, "slot_step: {} recent tokens of {} leave nobody to go", rule.recent, h.count);
            const int32_t gone = h.ranks[slot];
            for (int64_t s = 0; s < h.count; ++s) h.ranks[s] -= h.ranks[s] > gone;
            h.ranks[slot] = h.count - 1;
        }
        h.tokens[slot] = static_cast<int32_t>(token);
        h.scores[slot] = fresh;
        h.put(slot, h.staged_k, h.staged_v);
    });
}

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
            std::memcpy(target.key(tile, head, entry % kTileTokens), h.key(s), h.k_bytes());
            std::memcpy(target.value(tile, head, entry % kTileTokens), h.value(s), h.v_bytes());
        }
    });
}

void slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                 const Tensor& weights, const SlotRule& rule, const SlotCall& call) {
    const KvAccess source(from);
    const int64_t heads = kv.layout.kv_heads, entries = call.entries();
    for_heads(heads, entries * (rule.by == ScoreBy::kKeyNorm ? kv.layout.head_dim : 4), [&](int64_t head) {
        const HeadSlots h(kv, call.owner, head);
        check_tokens("slot_scores", h.count, std::min(call.cached, h.slots));
        const auto* by_rank = static_cast<const int32_t*>(order.data()) + head * kv.slots();
        float* to = static_cast<float*>(scores.data()) + head * scores.dim(1);
        const float* weight = weights ? static_cast<const float*>(weights.data()) + head * weights.dim(1) : nullptr;
        const int64_t begin = call.cached - h.count, end = entries - std::min<int64_t>(rule.window, entries - begin);
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
                to[e] = first_score(rule, h.layout, call.owner, head, token,
                                    source.key(source.tile(0, e / kTileTokens), head, e % kTileTokens));
            }
        }
    });
}

namespace {

/// Which entries of a head stay, by what they are worth: keys [entries] is put into another order.
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
    check(heavy >= 0 && candidates > 0, "slot_choose: {} recent tokens of {} leave nobody to go", rule.recent, budget);
    for (int64_t i = 0; i < candidates; ++i) keys[i] = worth(rule, scores[begin + i], token_of(begin + i), tokens);
    uint64_t least = UINT64_MAX;  // nobody but the recent ones, if nothing is left for others
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
        h.put(slot, source.key(tile, h.head, e % kTileTokens), source.value(tile, h.head, e % kTileTokens));
    };
    for_heads(heads, call.entries() * kv.layout.head_dim, [&](int64_t head) {
        HeadSlots h(kv, call.owner, head);
        check_tokens("slot_choose", h.count, std::min(call.cached, h.slots));
        check_tokens("slot_choose", h.budget, h.slots);
        const auto* by_rank = static_cast<const int32_t*>(order.data()) + head * kv.slots();
        const float* score = static_cast<const float*>(scores.data()) + head * scores.dim(1);
        auto* stays = static_cast<uint64_t*>(keys.data()) + head * keys.dim(1);
        choose(h, by_rank, score, stays, rule, call);
        // Those that have a slot keep it; the others take what has become free, in the order of the slots.
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
        for (int64_t s = next; s < before; ++s) {  // of a head that may keep fewer now: the first slots are in use
            if (h.ranks[s] < 0) continue;
            while (h.ranks[free] >= 0) ++free;
            if (!call.retiled) h.put(free, h.key(s), h.value(s));
            h.tokens[free] = h.tokens[s];
            h.scores[free] = h.scores[s];
            h.ranks[free] = h.ranks[s];
        }
        h.count = static_cast<int32_t>(next);
        if (!call.retiled) return;
        for (int64_t i = 0, rank = 0; i < n; ++i) {  // stays[rank] = the entry that has this rank now
            if (stays[i] != 0) stays[rank++] = static_cast<uint64_t>(begin + i);
        }
        for (int64_t slot = 0; slot < next; ++slot) put_entry(h, slot, static_cast<int64_t>(stays[h.ranks[slot]]));
    });
}

}  // namespace trireme
