/// Slots in a decode step, on the CPU: pools the weights of attention, and evicts a token (kernels/slots.h).

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/head_slots.h"
#include "kernels/cpu/key_diff.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/slot_step.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// to = to + scale * weights, or the larger of the two.
void pool_head(float* to, const float* weights, float scale, int64_t n, HeadPool pool) {
    const F d;
    const Vf by = hn::Set(d, scale);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Vf x = hn::Mul(hn::LoadU(d, weights + i), by), old = hn::LoadU(d, to + i);
        hn::StoreU(pool == HeadPool::kMax ? hn::Max(old, x) : hn::Add(old, x), d, to + i);
    }
    for (; i < n; ++i) {
        const float x = weights[i] * scale;
        to[i] = pool == HeadPool::kMax ? std::max(to[i], x) : to[i] + x;
    }
}

/// Applies attended_score of one query to n slots.
void add_attention(const SlotRule& rule, float* scores, const float* weights, int64_t n) {
    const F d;
    int64_t i = 0;
    if (rule.by == ScoreBy::kSum && !rule.half) {
        const Vf decay = hn::Set(d, rule.decay);
        for (; i + kLanes <= n; i += kLanes) {
            const Vf kept = hn::Mul(hn::LoadU(d, scores + i), decay);
            hn::StoreU(hn::Add(kept, hn::LoadU(d, weights + i)), d, scores + i);
        }
    }
    for (; i < n; ++i) scores[i] = attended_score(rule, scores[i], weights[i], 1);
}

/// The slot of the token with the lowest priority among those whose rank is below `end`; -1: there is none. worth()
/// compares scores before ages, so its upper half is compared first, as a signed number.
int64_t least_worthy(const SlotRule& rule, const float* scores, const int32_t* tokens, const int32_t* ranks, int64_t n,
                     int32_t end, int64_t tokens_now) {
    const F d;
    const I di;
    const auto most = hn::Set(di, INT32_MAX), last = hn::Set(di, end);
    const auto upper = [&](int64_t i) HWY_ATTR {
        const auto token = hn::LoadU(di, tokens + i);
        Vf score = hn::LoadU(d, scores + i);
        if (rule.per_query) {
            score = hn::Div(score, hn::ConvertTo(d, hn::Sub(hn::Set(di, static_cast<int32_t>(tokens_now)), token)));
        }
        const auto bits = hn::BitCast(di, hn::Add(score, hn::Zero(d)));  // -0 is 0
        const auto order = hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), most));
        return hn::IfThenElse(hn::Lt(token, hn::Set(di, rule.sinks)), most, order);
    };
    const auto upper_of_one = [&](int64_t i) {
        const uint64_t key = worth(rule, scores[i], tokens[i], tokens_now);
        return std::bit_cast<int32_t>(static_cast<uint32_t>(key >> 32) ^ 0x80000000u);
    };
    auto lowest = most;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const auto open = hn::Lt(hn::LoadU(di, ranks + i), last);
        lowest = hn::Min(lowest, hn::IfThenElse(open, upper(i), most));
    }
    int32_t least = hn::GetLane(hn::MinOfLanes(di, lowest));
    const int64_t whole = i;
    for (; i < n; ++i) {
        if (ranks[i] < end) least = std::min(least, upper_of_one(i));
    }
    int64_t slot = -1;
    const auto youngest = [&](int64_t s) {
        if (ranks[s] < end && upper_of_one(s) == least && (slot < 0 || tokens[s] > tokens[slot])) slot = s;
    };
    const auto wanted = hn::Set(di, least);
    for (i = 0; i < whole; i += kLanes) {
        if (hn::AllFalse(di, hn::Eq(upper(i), wanted))) continue;
        for (int64_t s = i; s < i + kLanes; ++s) youngest(s);
    }
    for (; i < n; ++i) youngest(i);
    return slot;
}

/// Closes the gap of an evicted rank: later ranks move down by one.
void close_ranks(int32_t* ranks, int64_t n, int32_t gone) {
    const I di;
    const auto free = hn::Set(di, gone);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const auto rank = hn::LoadU(di, ranks + i);
        hn::StoreU(hn::Add(rank, hn::VecFromMask(di, hn::Gt(rank, free))), di, ranks + i);  // a mask is -1
    }
    for (; i < n; ++i) ranks[i] -= ranks[i] > gone;
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(pool_head);
HWY_EXPORT(add_attention);
HWY_EXPORT(least_worthy);
HWY_EXPORT(close_ranks);

void pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                  const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) {
    const auto* kv_head = static_cast<const int32_t*>(kv_of_head.data());
    const auto* share = static_cast<const float*>(shares.data());
    const auto* counts = static_cast<const int32_t*>(pool.counts.data());
    const int64_t owners = out.dim(0), heads = kv_of_head.rows(), kv_heads = out.dim(1), n = out.dim(2);
    const int64_t width = weights.dim(2);
    for_heads(owners * kv_heads, n * heads / kv_heads, [&](int64_t i) {
        const int64_t owner = i / kv_heads;
        float* to = static_cast<float*>(out.data()) + i * n;
        if (!pool.more) std::fill(to, to + n, 0.0F);
        if (counts != nullptr) check_tokens("pool_weights", counts[i], n);
        const int64_t seen = counts != nullptr ? counts[i] : n;
        for (int64_t first = 0; first < seen; first += kTileTokens) {
            const int64_t end = std::min(seen, first + kTileTokens);
            for (int64_t h = 0; h < heads; ++h) {
                if (kv_head[h] != i % kv_heads || share[h] == 0) continue;
                const int64_t at = owner * heads + h;
                float scale = share[h] * pool.share;
                if (tops) {
                    const auto* total = static_cast<const float*>(totals.data()) + at * 2;
                    const auto* top = static_cast<const float*>(tops.data()) + at * tops.dim(2);
                    scale *= std::exp2(top[first / kTileTokens] - total[0]) / total[1];
                }
                const auto* w = static_cast<const float*>(weights.data()) + at * width;
                HWY_DYNAMIC_DISPATCH(pool_head)(to + first, w + first, scale, end - first, pool.by);
            }
        }
    });
}

void slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) {
    const int64_t heads = kv.layout.kv_heads;
    const int64_t elements = rule.by == ScoreBy::kKeyDiff ? kv.layout.head_dim : 4;  // of a slot
    for_heads(kv.owners() * heads, kv.slots() * elements, [&](int64_t i) {
        HeadSlots h(kv, i / heads, i % heads);
        const float* weight = weights ? static_cast<const float*>(weights.data()) + i * weights.dim(2) : nullptr;
        float fresh = first_score(rule, h.layout, i / heads, h.head, token, [&](char* piece, int64_t first, int64_t n) {
            row_piece(h.layout.k_type, h.staged_k, h.layout.head_dim, first, n, piece);
        });
        if (rule.counts_all()) {
            HWY_DYNAMIC_DISPATCH(add_attention)(rule, h.scores, weight, h.count);
            fresh = attended_score(rule, 0, weight[h.count], 1);
        }
        check_tokens("slot_step", h.budget, h.slots);
        check_tokens("slot_step", h.count, h.budget);
        if (rule.by == ScoreBy::kKeyDiff) {  // the fresh token comes last
            fresh = key_differences({h.tiles, 0, h.layout.k_type, h.layout.head_dim}, 0, h.count, h.staged_k, h.scores);
        }
        int64_t slot = h.count;
        if (h.count < h.budget) {
            h.ranks[slot] = h.count++;
        } else {  // of count + 1 tokens, the last `recent` are retained, the fresh one among them
            slot = HWY_DYNAMIC_DISPATCH(least_worthy)(rule, h.scores, h.tokens, h.ranks, h.count,
                                                      h.count + 1 - rule.recent, token + 1);
            check(slot >= 0, "slot_step: {} recent tokens of {} leave none to evict", rule.recent, h.count);
            const int32_t gone = h.ranks[slot];
            HWY_DYNAMIC_DISPATCH(close_ranks)(h.ranks, h.count, gone);
            h.ranks[slot] = h.count - 1;
        }
        h.tokens[slot] = static_cast<int32_t>(token);
        h.scores[slot] = fresh;
        h.put_rows(slot, h.staged_k, h.staged_v);
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
