#pragma once
/// Eviction after a call, on a GPU: a head retains its last tokens and those of the highest priority (slot_rule.h).
/// Heads that share slots (slot_share.h) were given other tiles: retained tokens are copied there at the end.

#include "kernels/cuda/select.h"
#include "kernels/cuda/slots.h"

namespace trireme::gpu {

/// Kernels::slot_choose. Grid: KV heads. A block has a head, because entries compete for the head's budget. A thread
/// numbers consecutive entries, then slots, so that it continues the count of the threads before. A warp copies a
/// token.
struct SlotChoose {
    static constexpr int kThreads = 512, kWarps = kThreads / kWarp, kBlocksOfSm = 1;
    using Shared = SelectShared<kThreads>;
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    static_assert(kThreads % kWarp == 0);
    struct Args {
        Slots slots;
        Kv from;
        const int32_t* order;
        const float* scores;  // [kv_heads, entries]
        uint64_t* keys;       // [kv_heads, 2 * entries]
        SlotRule rule;
        SlotCall call;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Slots& s = a.slots;
        const int64_t number = gpu.block_x(), at = a.call.owner * s.heads + number, entries = a.call.entries();
        const int64_t count = s.counts[at], budget = s.budgets[at] - a.call.reserve;
        const int64_t most = min_of(a.call.cached, s.slots);
        if (count < 0 || count > most) return gpu.fault(Fault::kSlots, count, most);
        if (budget > s.slots) return gpu.fault(Fault::kSlots, budget, s.slots);
        const int64_t n = a.call.fresh + count;
        if (n > budget && budget < a.rule.recent) return gpu.fault(Fault::kRecent, a.rule.recent, budget);
        uint64_t* keys = a.keys + number * 2 * entries;
        static_assert(2 * sizeof(int32_t) == sizeof(uint64_t), "two lists take the second half of a head's keys");
        auto* lists = reinterpret_cast<int32_t*>(keys + entries);
        const Head h = {number,
                        at,
                        count,
                        n,
                        a.call.cached - count,
                        keys,
                        lists,
                        lists + entries,
                        a.order + number * s.slots,
                        a.scores + number * entries,
                        s.tokens + at * s.slots,
                        s.ranks + at * s.slots,
                        s.scores + at * s.slots};
        const int64_t stay = number_entries(gpu, a, h, budget);
        const Holes holes = list_holes(gpu, h, stay);
        enter(gpu, a, h, holes);
        close_up(gpu, a, h, holes, stay);
        if (a.call.retiled) copy_all(gpu, a, h, stay);
        if (gpu.thread() == 0) s.counts[at] = static_cast<int32_t>(stay);
    }

  private:
    /// A head with `count` slots in use, and its n entries; the first is entry `begin` of the call.
    struct Head {
        int64_t number, at, count, n, begin;
        uint64_t* keys;           // [n]: an entry's priority; then its rank if it is retained, else kGone
        int32_t *holes, *movers;  // slots below `count`, in order: free ones; ones in use after the first `stay`
        const int32_t* order;
        const float* new_scores;  // of the call's entries
        int32_t *tokens, *ranks;
        float* scores;
    };
    struct Holes {
        int64_t holes, movers;
    };
    static constexpr uint64_t kGone = ~uint64_t{0};

    TRIREME_GPU static int64_t token_of(const Args& a, const Head& h, int64_t i) {
        return i < h.count ? h.tokens[h.order[i]] : a.call.first_token + i - h.count;
    }

    /// Writes new scores and ranks of old tokens, rank -1 if evicted; keys become ranks. Returns the number retained.
    template <class Gpu>
    TRIREME_GPU static int64_t number_entries(Gpu& gpu, const Args& a, const Head& h, int64_t budget) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const int64_t candidates = h.n <= budget ? 0 : h.n - a.rule.recent, heavy = budget - a.rule.recent;
        const int64_t tokens = a.call.first_token + a.call.fresh;
        for (int64_t i = gpu.thread(); i < candidates; i += kThreads) {
            h.keys[i] = worth(a.rule, h.new_scores[h.begin + i], token_of(a, h, i), tokens);
        }
        gpu.sync();
        const bool some = candidates > 0 && heavy > 0;
        const uint64_t least = some ? nth_largest(
                                          gpu, shared, [&](int64_t i) { return h.keys[i]; }, candidates, heavy)
                                    : 0;
        const auto stays = [&](int64_t i) { return i >= candidates || (some && h.keys[i] >= least); };
        const Piece mine = piece_of<kThreads>(gpu.thread(), h.n);
        uint32_t stay = 0;
        for (int64_t i = mine.begin; i < mine.end; ++i) stay += stays(i);
        const Counted counted = count_before(gpu, shared, stay);
        int64_t rank = counted.before;
        for (int64_t i = mine.begin; i < mine.end; ++i) {
            const bool one = stays(i);
            h.keys[i] = one ? static_cast<uint64_t>(rank) : kGone;
            if (i < h.count) {
                h.scores[h.order[i]] = h.new_scores[h.begin + i];
                h.ranks[h.order[i]] = one ? static_cast<int32_t>(rank) : -1;
            }
            rank += one;
        }
        gpu.sync();
        return counted.all;
    }

    /// Lists slots that have become free, and slots after the first `stay` that are still in use.
    template <class Gpu>
    TRIREME_GPU static Holes list_holes(Gpu& gpu, const Head& h, int64_t stay) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const Piece mine = piece_of<kThreads>(gpu.thread(), h.count);
        uint32_t holes = 0, movers = 0;
        for (int64_t s = mine.begin; s < mine.end; ++s) {
            holes += h.ranks[s] < 0;
            movers += h.ranks[s] >= 0 && s >= stay;
        }
        const Counted hole = count_before(gpu, shared, holes), mover = count_before(gpu, shared, movers);
        int64_t next_hole = hole.before, next_mover = mover.before;
        for (int64_t s = mine.begin; s < mine.end; ++s) {
            if (h.ranks[s] < 0) h.holes[next_hole++] = static_cast<int32_t>(s);
            if (h.ranks[s] >= 0 && s >= stay) h.movers[next_mover++] = static_cast<int32_t>(s);
        }
        gpu.sync();
        return {hole.all, mover.all};
    }

    /// A warp copies key and value of the head's i-th entry to a slot; false: a fault.
    template <class Gpu>
    TRIREME_GPU static bool put_entry(Gpu& gpu, const Args& a, const Head& h, int64_t slot, int64_t i) {
        const int64_t entry = h.begin + i;
        char* tile = a.from.tile(0, entry / kTile);
        if (tile == nullptr) return gpu.fault(Fault::kTile, entry, 0), false;
        if (a.slots.tile(h.at, slot) == nullptr) return gpu.fault(Fault::kTile, slot, h.at), false;
        a.slots.put(gpu.thread() % kWarp, kWarp, h.at, slot, a.from.key(tile, h.number, entry % kTile),
                    a.from.value(tile, h.number, entry % kTile));
        return true;
    }

    /// Retained fresh tokens take free slots, in the order of slots, then slots after those in use.
    template <class Gpu>
    TRIREME_GPU static void enter(Gpu& gpu, const Args& a, const Head& h, const Holes& holes) {
        const int64_t old = h.count - holes.holes;  // retained old tokens
        const int lane = gpu.thread() % kWarp;
        for (int64_t i = h.count + gpu.thread() / kWarp; i < h.n; i += kWarps) {
            if (h.keys[i] == kGone) continue;
            const auto rank = static_cast<int64_t>(h.keys[i]);
            const int64_t slot = rank - old < holes.holes ? h.holes[rank - old] : rank;
            if (!a.call.retiled && !put_entry(gpu, a, h, slot, i)) return;
            if (lane != 0) continue;
            h.tokens[slot] = static_cast<int32_t>(token_of(a, h, i));
            h.scores[slot] = h.new_scores[h.begin + i];
            h.ranks[slot] = static_cast<int32_t>(rank);
        }
    }

    /// If the budget has shrunk, tokens of later slots fill the holes that the fresh ones have left, so that the first
    /// slots are in use.
    template <class Gpu>
    TRIREME_GPU static void close_up(Gpu& gpu, const Args& a, const Head& h, const Holes& holes, int64_t stay) {
        const int64_t fresh = stay - (h.count - holes.holes);  // they have the first holes
        const int lane = gpu.thread() % kWarp;
        for (int64_t i = gpu.thread() / kWarp; i < holes.movers; i += kWarps) {
            const int32_t from = h.movers[i], to = h.holes[fresh + i];
            if (!a.call.retiled) {
                if (a.slots.tile(h.at, from) == nullptr) return gpu.fault(Fault::kTile, from, h.at);
                if (a.slots.tile(h.at, to) == nullptr) return gpu.fault(Fault::kTile, to, h.at);
                a.slots.put(lane, kWarp, h.at, to, a.slots.key(h.at, from), a.slots.value(h.at, from));
            }
            if (lane != 0) continue;
            h.tokens[to] = h.tokens[from];
            h.scores[to] = h.scores[from];
            h.ranks[to] = h.ranks[from];
        }
    }

    /// Copies keys and values of all slots in use from the entries.
    template <class Gpu>
    TRIREME_GPU static void copy_all(Gpu& gpu, const Args& a, const Head& h, int64_t stay) {
        gpu.sync();  // ranks are final, and holes have been read
        int32_t* entry_of_rank = h.holes;
        for (int64_t i = gpu.thread(); i < h.n; i += kThreads) {
            if (h.keys[i] != kGone) entry_of_rank[h.keys[i]] = static_cast<int32_t>(i);
        }
        gpu.sync();
        for (int64_t slot = gpu.thread() / kWarp; slot < stay; slot += kWarps) {
            if (!put_entry(gpu, a, h, slot, entry_of_rank[h.ranks[slot]])) return;
        }
    }
};

}  // namespace trireme::gpu
