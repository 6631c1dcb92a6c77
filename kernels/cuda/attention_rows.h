#pragma once
/// Types that attention kernels share: rows, runs of them, and records of a tile.

#include "kernels/cuda/kv.h"

namespace trireme::gpu {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr int kMaxAndSum = 2;  // floats of a record before the accumulator

/// Rows as attention sees them (RowsView), and what heads have of their own (LayerKv::counts and begins, or null).
/// Prefill rows are consecutive and have nothing staged.
struct Seen {
    static constexpr int64_t kEvery = 0x7fffffff;  // kEverySlot
    const int32_t *slots, *sequences, *cached;
    Rows<const int32_t> ancestors;
    int64_t rows, staged;
    bool prefill;
    const int32_t *counts = nullptr, *begins = nullptr;
    int64_t window = kEvery;
    int64_t first_row = 0;  // RowsView

    /// Number of slots in tiles that row r sees.
    TRIREME_GPU int64_t in_tiles(int64_t r) const { return prefill ? slots[r] + 1 : cached[r]; }
    /// A head's slots minus those of the rows; never above 0.
    TRIREME_GPU int64_t shift(int64_t kv_head) const { return counts == nullptr ? 0 : counts[kv_head] - cached[0]; }
    /// The first slot that a head's queries see, and the first that row r sees within its window.
    TRIREME_GPU int64_t begin(int64_t kv_head) const { return begins == nullptr ? 0 : begins[kv_head]; }
    TRIREME_GPU int64_t begin(int64_t kv_head, int64_t r) const {
        return max_of(begin(kv_head), slots[r] + shift(kv_head) + 1 - window);
    }
    /// The first slot that any of `n` rows from `first` on sees.
    TRIREME_GPU int64_t begin_of_rows(int64_t kv_head, int64_t first, int64_t n) const {
        int64_t least = begin(kv_head, first);
        for (int64_t r = first + 1; r < first + n; ++r) least = min_of(least, begin(kv_head, r));
        return least;
    }
    /// The largest slot of `n` rows from `first` on.
    TRIREME_GPU int64_t last_slot(int64_t first, int64_t n) const {
        if (prefill) return slots[first + n - 1];
        int64_t last = slots[first];
        for (int64_t r = first + 1; r < first + n; ++r) last = max_of(last, slots[r]);
        return last;
    }
};

/// Positions and angles of keys that are rotated as they are read (LayerKv::angles). No table: keys are stored rotated.
struct Angles {
    Rows<const float> table = {};  // [position]: cosines of the pairs, then sines; 16-byte aligned
    int64_t positions = 0;
    Rows<const int32_t> ranks = {};  // [KV head][slot]; a prefill has none: there a slot is a position
};

/// Length of the run of equal ids that begins at `at`; 0 if their run began before.
TRIREME_GPU int64_t run_at(const int32_t* ids, int64_t at, int64_t count) {
    if (at > 0 && ids[at - 1] == ids[at]) return 0;
    int64_t length = 1;
    while (at + length < count && ids[at + length] == ids[at]) ++length;
    return length;
}

/// Whether a head has no more slots than its rows say.
template <class Gpu>
TRIREME_GPU bool check_counts(Gpu& gpu, const Seen& seen, int64_t kv_head) {
    if (seen.counts == nullptr || (seen.shift(kv_head) <= 0 && seen.counts[kv_head] >= 0)) return true;
    gpu.fault(Fault::kSlots, seen.counts[kv_head], seen.cached[0]);
    return false;
}
/// Whether row r, of a run from `first` on, agrees with itself and with the head.
template <class Gpu>
TRIREME_GPU bool check_row(Gpu& gpu, const Seen& seen, int64_t max_slots, int64_t kv_head, int64_t first, int64_t r) {
    const int64_t slot = seen.slots[r], in_tiles = seen.in_tiles(r), staged = slot - in_tiles;
    bool order = in_tiles >= 0 && slot < max_slots && staged < kStaged && (seen.prefill || staged >= -1);
    if (seen.prefill) order = order && slot == seen.slots[first] + (r - first);
    if (!order) {
        gpu.fault(Fault::kRowOrder, slot, in_tiles);
        return false;
    }
    for (int64_t i = 0; !seen.prefill && i <= staged; ++i) {
        const int32_t ancestor = seen.ancestors(r)[i];
        if (ancestor >= 0 && ancestor < seen.staged) continue;
        gpu.fault(Fault::kAncestor, ancestor, r);
        return false;
    }
    const int64_t begin = seen.begin(kv_head);
    if (begin != 0 && (begin < 0 || begin > slot + 1)) {
        gpu.fault(Fault::kBegin, slot, begin);
        return false;
    }
    return true;
}

}  // namespace trireme::gpu
