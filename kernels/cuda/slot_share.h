#pragma once
/// Sharing of a layer's slots among its heads, on a GPU (SlotShare). The same budgets as on the CPU.

#include "kernels/cuda/select.h"
#include "kernels/cuda/slots.h"

namespace trireme::gpu {

/// Kernels::slot_keys. Grid: runs of kThreads entries, KV heads. A thread has an entry: entries are independent.
struct SlotKeys {
    static constexpr int kThreads = 128;
    struct Args {
        uint64_t* keys;  // [kv_heads, entries]
        Slots slots;
        const int32_t* order;
        const float* scores;  // [kv_heads, entries]
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
        if (e >= entries) return;
        const int64_t token = e < begin           ? 0
                              : e < a.call.cached ? s.tokens[at * s.slots + a.order[head * s.slots + e - begin]]
                                                  : a.call.first_token + e - a.call.cached;
        a.keys[head * entries + e] =
            e < begin ? 0 : worth(a.rule, a.scores[head * entries + e], token, a.call.first_token + a.call.fresh);
    }
};

/// Kernels::slot_share. Grid: one block, because a head's budget depends on all others. Threads stride over the entries
/// of one head after another; thread 0 sets budgets and tiles.
struct ShareSlots {
    static constexpr int kThreads = 512, kBlocksOfSm = 1;
    struct Shared {
        SelectShared<kThreads> select;
        int32_t stay[kMostSharing];  // entries that each head retains
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        Slots slots;
        int64_t *table, tiles_of_head;  // of the owner: [kv_heads, tiles_of_head]
        char* tiles;                    // the owner's
        int64_t tiles_n, tile_bytes;
        uint64_t* keys;  // [rows_n, entries]
        int64_t rows_n;
        const int32_t* rows;  // [heads]: the row of each of the model's heads in `keys`
        int64_t heads;
        int32_t* largest;  // of the owner
        SlotShare share;
        SlotRule rule;
        SlotCall call;

        TRIREME_GPU uint64_t* row(int64_t head) const { return keys + rows[head] * call.entries(); }
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        for (int64_t h = 0; h < a.heads; ++h) {
            if (a.rows[h] < 0 || a.rows[h] >= a.rows_n) return gpu.fault(Fault::kRank, a.rows[h], a.rows_n);
        }
        int64_t all = 0;
        for (int64_t h = 0; h < a.heads; ++h) {
            const int64_t some = count_if(gpu, a, h, a.call.entries(), [](uint64_t key) { return key != 0; });
            if (gpu.thread() == 0) shared.stay[h] = static_cast<int32_t>(some);
            all += some;
        }
        gpu.sync();
        const int64_t room = a.share.tokens - a.call.reserve;
        if (all > a.heads * room) share_out(gpu, a, a.heads * (room - a.rule.recent));
        if (gpu.thread() == 0) give_tiles(gpu, a);
    }

  private:
    template <class Gpu, class Fits>
    TRIREME_GPU static int64_t count_if(Gpu& gpu, const Args& a, int64_t head, int64_t n, const Fits& fits) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const uint64_t* keys = a.row(head);
        uint32_t mine = 0;
        for (int64_t i = gpu.thread(); i < n; i += kThreads) mine += fits(keys[i]);
        return count_before(gpu, shared.select, mine).all;
    }

    /// `left`: entries that all heads together retain in addition to the recent ones.
    template <class Gpu>
    TRIREME_GPU static void share_out(Gpu& gpu, const Args& a, int64_t left) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const int64_t candidates = a.call.entries() > a.rule.recent ? a.call.entries() - a.rule.recent : 0;
        // Clears what a head retains in any case, so that it is not selected again.
        for (int64_t h = 0; h < a.heads; ++h) {
            const int64_t has = shared.stay[h], recent = min_of(has, a.rule.recent);
            const int64_t least = min_of(a.share.least, has - recent);
            uint64_t* keys = a.row(h);
            gpu.sync();  // all threads have read what the head has
            if (gpu.thread() == 0) shared.stay[h] = static_cast<int32_t>(recent + least);
            left -= least;
            if (least == 0) continue;
            const auto key_of = [&](int64_t i) { return keys[i]; };
            const uint64_t last = nth_largest(gpu, shared.select, key_of, candidates, least);
            for (int64_t i = gpu.thread(); i < candidates; i += kThreads) keys[i] = keys[i] >= last ? 0 : keys[i];
        }
        gpu.sync();
        if (left <= 0) return;
        const auto key_of = [&](int64_t i) { return a.row(i / candidates)[i % candidates]; };
        const uint64_t last = nth_largest(gpu, shared.select, key_of, a.heads * candidates, left);
        const auto add = [&](int64_t h, const auto& fits) {
            const int64_t some = count_if(gpu, a, h, candidates, fits);
            if (gpu.thread() == 0) shared.stay[h] += static_cast<int32_t>(some);
            left -= some;
        };
        for (int64_t h = 0; h < a.heads; ++h) add(h, [&](uint64_t key) { return key > last; });
        for (int64_t h = 0; h < a.heads && left > 0; ++h) add(h, [&](uint64_t key) { return key == last; });
        gpu.sync();
    }

    /// One thread sets the budgets, and assigns tiles to them.
    template <class Gpu>
    TRIREME_GPU static void give_tiles(Gpu& gpu, const Args& a) {
        const Shared& shared = *static_cast<Shared*>(gpu.shared());
        int64_t all = 0, most = 0, next = 0;
        for (int64_t h = 0; h < a.heads; ++h) all += shared.stay[h];
        for (int64_t h = 0; h < a.heads; ++h) {
            const int64_t budget = shared_budget(a.share, a.heads, shared.stay[h], all);
            most = budget > most ? budget : most;
        }
        *a.largest = static_cast<int32_t>(most);
        for (int64_t head = 0; head < a.slots.heads; ++head) {
            const int64_t budget = shared_budget(a.share, a.heads, shared.stay[a.rule.first_head + head], all);
            if (budget > a.slots.slots) return gpu.fault(Fault::kSlots, budget, a.slots.slots);
            a.slots.budgets[a.call.owner * a.slots.heads + head] = static_cast<int32_t>(budget);
            const int64_t used = (budget + kTile - 1) / kTile;
            if (next + used > a.tiles_n) return gpu.fault(Fault::kTile, (next + used) * kTile, head);
            for (int64_t t = 0; t < a.tiles_of_head; ++t) {
                a.table[head * a.tiles_of_head + t] =
                    t < used ? reinterpret_cast<int64_t>(a.tiles + (next + t) * a.tile_bytes) : 0;
            }
            next += used;
        }
    }
};

}  // namespace trireme::gpu
