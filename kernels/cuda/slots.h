#pragma once
/// Slots on a GPU: pooling attention weights, a decode step, and gathering and scoring entries around a call
/// (kernels/slot_rule.h). The same bits as on the CPU. slot_choose.h has the eviction after a call.

#include "kernels/cuda/key_diff.h"
#include "kernels/cuda/kv.h"
#include "kernels/slot_rule.h"

namespace trireme::gpu {

/// The slots of all heads of all owners; `at` below is owner * heads + head.
struct Slots {
    Kv kv;  // of single heads: `at` indexes the table and the staged rows
    int32_t *tokens, *ranks;
    float* scores;
    int32_t *counts, *budgets;
    int64_t heads, slots;

    TRIREME_GPU char* tile(int64_t at, int64_t slot) const { return kv.tile(at, slot / kTile); }
    TRIREME_GPU char* key(int64_t at, int64_t slot) const { return kv.key(tile(at, slot), 0, slot % kTile); }
    TRIREME_GPU char* value(int64_t at, int64_t slot) const { return kv.value(tile(at, slot), 0, slot % kTile); }
    /// `threads` threads copy a token's key and value to a slot.
    TRIREME_GPU void put(int thread, int threads, int64_t at, int64_t slot, const char* k, const char* v) const {
        copy_words(thread, threads, k, key(at, slot), kv.k_slot);
        copy_words(thread, threads, v, value(at, slot), kv.v_slot);
    }
};

/// first_score() of slot_rule.h; it reads the key where the score comes from it.
TRIREME_GPU float first_score(const SlotRule& rule, const Kv& kv, int64_t owner, int64_t head, int64_t token,
                              const char* key) {
    if (rule.by != ScoreBy::kKeyNorm) return first_score(rule, owner, head, token, 0);
    float sum = 0;
    for (int64_t i = 0; i < kv.dim; ++i) {
        const float x = element_of(kv.k_type, key, kv.dim, i);
        sum = fmaf(x, x, sum);
    }
    return first_score(rule, owner, head, token, sum);
}

/// Kernels::pool_weights. Grid: runs of kThreads slots, KV heads, owners. A thread has a slot: it adds the weights of
/// the query heads in order, and no thread waits for another.
struct PoolWeights {
    static constexpr int kThreads = 256;
    struct Args {
        float* out;                  // [owners, kv_heads, n]
        const float* weights;        // [owners, heads, width]
        const float *tops, *totals;  // [owners, heads, tiles], [owners, heads, 2], or none
        const int32_t* kv_of_head;   // [heads]
        const float* shares;         // [heads]
        int64_t kv_heads, heads, n, width, tiles;
        HeadPool by;
        float share;  // WeightPool::share
        bool more;
        const int32_t* counts;  // [owners, kv_heads], or none
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t slot = int64_t{gpu.block_x()} * kThreads + gpu.thread();
        const int64_t kv_head = gpu.block_y(), owner = gpu.block_z();
        if (slot >= a.n) return;
        float* out = a.out + (owner * a.kv_heads + kv_head) * a.n + slot;
        const int64_t seen = a.counts != nullptr ? a.counts[owner * a.kv_heads + kv_head] : a.n;
        if (seen < 0 || seen > a.n) return gpu.fault(Fault::kSlots, seen, a.n);
        float pooled = a.more ? *out : 0;
        for (int64_t h = 0; h < a.heads && slot < seen; ++h) {
            if (a.kv_of_head[h] != kv_head || a.shares[h] == 0) continue;
            const int64_t at = owner * a.heads + h;
            float scale = a.shares[h] * a.share;
            if (a.tops != nullptr) {
                scale *= exp2f(a.tops[at * a.tiles + slot / kTile] - a.totals[2 * at]) / a.totals[2 * at + 1];
            }
            const float x = a.weights[at * a.width + slot] * scale;
            pooled = a.by == HeadPool::kAdd ? pooled + x : pooled < x ? x : pooled;
        }
        *out = pooled;
    }
};

/// Kernels::slot_step. Grid: KV heads, owners. A block has a head, because the slot to evict is the minimum over all of
/// its slots. Threads stride over these slots, and copy the new token together.
struct SlotStep {
    static constexpr int kThreads = 256, kBlocksOfSm = 4;
    static_assert(kThreads % kWarp == 0);
    struct Shared {
        uint64_t least[kThreads / kWarp];
        int32_t slot;
        float fresh;  // KeyDiff's score of the new token
        KeyDifferences::Shared keys;
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        Slots slots;
        const float* weights;  // [owners, kv_heads, slots + 1], or none
        SlotRule rule;
        int64_t token;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Slots& s = a.slots;
        const int64_t head = gpu.block_x(), owner = gpu.block_y(), at = owner * s.heads + head;
        const int32_t count = s.counts[at], budget = s.budgets[at];
        if (budget > s.slots) return gpu.fault(Fault::kSlots, budget, s.slots);
        if (count < 0 || count > budget) return gpu.fault(Fault::kSlots, count, budget);
        float* scores = s.scores + at * s.slots;
        int32_t* ranks = s.ranks + at * s.slots;
        const float* weights = a.rule.counts_all() ? a.weights + at * (s.slots + 1) : nullptr;
        for (int64_t i = gpu.thread(); weights != nullptr && i < count; i += kThreads) {
            scores[i] = attended_score(a.rule, scores[i], weights[i], 1);
        }
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        if (a.rule.by == ScoreBy::kKeyDiff) {  // the new token comes last
            for (int64_t first = 0; first < count; first += kTile) {
                if (s.tile(at, first) == nullptr) return gpu.fault(Fault::kTile, first, at);
            }
            KeyDifferences::run(
                gpu, shared.keys, kThreads, 0, count + 1, s.kv.k_type, s.kv.dim,
                [&](int64_t i) -> const char* { return i < count ? s.key(at, i) : s.kv.staged_key(at, 0); },
                [&](int64_t i) -> float& { return i < count ? scores[i] : shared.fresh; });
        }
        const int32_t slot = count < budget ? count : least_worthy(gpu, a, at, count);
        if (slot < 0) return gpu.fault(Fault::kRecent, a.rule.recent, count);
        if (s.tile(at, slot) == nullptr) return gpu.fault(Fault::kTile, slot, at);
        const int32_t gone = slot < count ? ranks[slot] : count;
        gpu.sync();  // all threads have read it, and the counts
        for (int64_t i = gpu.thread(); i < count; i += kThreads) ranks[i] -= ranks[i] > gone;
        gpu.sync();
        s.put(gpu.thread(), kThreads, at, slot, s.kv.staged_key(at, 0), s.kv.staged_value(at, 0));
        if (gpu.thread() != 0) return;
        s.tokens[at * s.slots + slot] = static_cast<int32_t>(a.token);
        scores[slot] = weights != nullptr ? attended_score(a.rule, 0, weights[count], 1)
                       : a.rule.by == ScoreBy::kKeyDiff
                           ? shared.fresh
                           : first_score(a.rule, s.kv, owner, head, a.token, s.kv.staged_key(at, 0));
        ranks[slot] = slot < count ? count - 1 : count;
        if (slot == count) s.counts[at] = count + 1;
    }

  private:
    /// The slot of the token to evict: of count + 1 tokens the last `recent` are retained, the new one among them. -1:
    /// none may be evicted.
    template <class Gpu>
    TRIREME_GPU static int32_t least_worthy(Gpu& gpu, const Args& a, int64_t at, int32_t count) {
        const Slots& s = a.slots;
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        uint64_t mine = ~uint64_t{0};
        int32_t slot = -1;
        for (int32_t i = gpu.thread(); i < count; i += kThreads) {
            if (s.ranks[at * s.slots + i] >= count + 1 - a.rule.recent) continue;
            const uint64_t w = worth(a.rule, s.scores[at * s.slots + i], s.tokens[at * s.slots + i], a.token + 1);
            if (slot >= 0 && w > mine) continue;
            mine = w;
            slot = i;
        }
        uint64_t least = mine;
        for (int mask = kWarp / 2; mask > 0; mask /= 2) {
            const uint64_t other = gpu.shuffle_xor(least, mask);
            least = other < least ? other : least;
        }
        if (gpu.thread() % kWarp == 0) shared.least[gpu.thread() / kWarp] = least;
        if (gpu.thread() == 0) shared.slot = -1;
        gpu.sync();
        for (int w = 0; w < kThreads / kWarp; ++w) least = shared.least[w] < least ? shared.least[w] : least;
        if (slot >= 0 && mine == least) shared.slot = slot;  // by one thread: no two tokens have the same priority
        gpu.sync();
        return shared.slot;
    }
};

/// Kernels::slot_gather. Grid: runs of kSlots slots, KV heads. A warp copies a token: its key and its value are
/// consecutive bytes, a few hundred each. Slots are divided among blocks, because copying takes most of the time.
struct SlotGather {
    static constexpr int kThreads = 256, kSlots = 64, kBlocksOfSm = 4;
    static_assert(kThreads % kWarp == 0 && kSlots % (kThreads / kWarp) == 0, "warps have equal numbers of tokens");
    struct Args {
        Kv to;
        Slots slots;
        int32_t *begins, *order;
        SlotCall call;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Slots& s = a.slots;
        const int64_t head = gpu.block_y(), at = a.call.owner * s.heads + head;
        const int64_t count = s.counts[at], most = min_of(a.call.cached, s.slots), begin = a.call.cached - count;
        if (count < 0 || count > most) return gpu.fault(Fault::kSlots, count, most);
        if (gpu.block_x() == 0 && gpu.thread() == 0) a.begins[head] = static_cast<int32_t>(begin);
        const int lane = gpu.thread() % kWarp;
        const int64_t first = int64_t{gpu.block_x()} * kSlots, last = min_of(first + kSlots, count);
        for (int64_t slot = first + gpu.thread() / kWarp; slot < last; slot += kThreads / kWarp) {
            const int64_t rank = s.ranks[at * s.slots + slot], entry = begin + rank;
            if (rank < 0 || rank >= count) return gpu.fault(Fault::kRank, rank, count);
            char *in = s.tile(at, slot), *out = a.to.tile(0, entry / kTile);
            if (in == nullptr) return gpu.fault(Fault::kTile, slot, at);
            if (out == nullptr) return gpu.fault(Fault::kTile, entry, 0);
            if (lane == 0) a.order[head * s.slots + rank] = static_cast<int32_t>(slot);
            copy_words(lane, kWarp, s.key(at, slot), a.to.key(out, head, entry % kTile), s.kv.k_slot);
            copy_words(lane, kWarp, s.value(at, slot), a.to.value(out, head, entry % kTile), s.kv.v_slot);
        }
    }
};

/// Kernels::slot_scores. Grid: runs of kThreads entries, KV heads. A thread has an entry: the score of an entry does
/// not depend on other scores.
struct SlotScores {
    static constexpr int kThreads = 128;
    struct Args {
        float* scores;  // [kv_heads, entries]
        Slots slots;
        Kv from;
        const int32_t* order;
        const float* weights;  // [kv_heads, entries], or none
        SlotRule rule;
        SlotCall call;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Slots& s = a.slots;
        const int64_t head = gpu.block_y(), at = a.call.owner * s.heads + head, entries = a.call.entries();
        const int64_t count = s.counts[at], most = min_of(a.call.cached, s.slots), begin = a.call.cached - count;
        if (count < 0 || count > most) return gpu.fault(Fault::kSlots, count, most);
        const int64_t e = int64_t{gpu.block_x()} * kThreads + gpu.thread();
        if (e < begin || e >= entries) return;
        const bool old = e < a.call.cached;
        const float before = old ? s.scores[at * s.slots + a.order[head * s.slots + e - begin]] : 0;
        const float* weights = a.weights == nullptr ? nullptr : a.weights + head * entries;
        float* to = a.scores + head * entries + e;
        if (a.rule.counts_all() && a.call.fresh > 0) {
            *to = attended_score(a.rule, before, weights[e], a.call.fresh);
        } else if (a.rule.by == ScoreBy::kWindow) {
            const int64_t end = entries - min_of(a.rule.window, entries - begin);
            *to = e < end ? smoothed(weights, begin, end, e, a.rule.pool) : 0;
        } else if (old) {
            *to = before;
        } else {
            char* tile = a.from.tile(0, e / kTile);
            if (tile == nullptr) return gpu.fault(Fault::kTile, e, 0);
            *to = first_score(a.rule, a.from, a.call.owner, head, a.call.first_token + e - a.call.cached,
                              a.from.key(tile, head, e % kTile));
        }
    }
};

/// Kernels::slot_scores by KeyDiff. Grid: KV heads: a block has a head, because every score depends on all keys.
struct SlotDifferences {
    static constexpr int kThreads = 256;
    using Shared = KeyDifferences::Shared;
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        float* scores;  // [kv_heads, entries]
        Slots slots;
        Kv from;
        SlotCall call;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Slots& s = a.slots;
        const int64_t head = gpu.block_x(), at = a.call.owner * s.heads + head, entries = a.call.entries();
        const int64_t count = s.counts[at], most = min_of(a.call.cached, s.slots), begin = a.call.cached - count;
        if (count < 0 || count > most) return gpu.fault(Fault::kSlots, count, most);
        for (int64_t tile = begin / kTile; tile * kTile < entries; ++tile) {
            if (a.from.tile(0, tile) == nullptr) return gpu.fault(Fault::kTile, tile, 0);
        }
        KeyDifferences::run(
            gpu, *static_cast<Shared*>(gpu.shared()), kThreads, begin, entries, a.from.k_type, a.from.dim,
            [&](int64_t e) -> const char* { return a.from.key(a.from.tile(0, e / kTile), head, e % kTile); },
            [&](int64_t e) -> float& { return a.scores[head * entries + e]; });
    }
};

}  // namespace trireme::gpu
