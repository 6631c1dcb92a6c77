#pragma once
/// What attention's kernels have in common: rows, runs of them, and records of a tile.

#include "kernels/cuda/kv.h"

namespace trireme::gpu {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr int kMaxAndSum = 2;  // of a record, before the accumulator

/// Rows as attention sees them (kernels/kv.h, RowsView), and what heads see of their own (LayerKv::counts, begins; null
/// where they have nothing of their own). Prefill rows are consecutive and have nothing staged.
struct Seen {
    const int32_t *slots, *sequences, *cached;
    Rows<const int32_t> ancestors;
    int64_t rows, staged;
    bool prefill;
    const int32_t *counts = nullptr, *begins = nullptr;
    int64_t window = 0x7fffffff;  // kEverySlot
    int64_t first_row = 0;        // RowsView

    /// Slots of tiles that row r sees.
    TRIREME_GPU int64_t in_tiles(int64_t r) const { return prefill ? slots[r] + 1 : cached[r]; }
    /// By how much a head's slots are counted on from those of the rows; never above 0.
    TRIREME_GPU int64_t shift(int64_t kv_head) const { return counts == nullptr ? 0 : counts[kv_head] - cached[0]; }
    /// The first slot that a head's queries see; and which row r does: without `counts`, which counts from elsewhere.
    TRIREME_GPU int64_t begin(int64_t kv_head) const { return begins == nullptr ? 0 : begins[kv_head]; }
    TRIREME_GPU int64_t begin(int64_t kv_head, int64_t r) const {
        return max_of(begin(kv_head), slots[r] + shift(kv_head) + 1 - window);
    }
    /// Of `n` rows from `first` on, the first slot that one of them sees.
    TRIREME_GPU int64_t begin_of_rows(int64_t kv_head, int64_t first, int64_t n) const {
        int64_t least = begin(kv_head, first);
        for (int64_t r = first + 1; r < first + n; ++r) least = min_of(least, begin(kv_head, r));
        return least;
    }
    /// Of `n` rows from `first` on, the largest slot.
    TRIREME_GPU int64_t last_slot(int64_t first, int64_t n) const {
        if (prefill) return slots[first + n - 1];
        int64_t last = slots[first];
        for (int64_t r = first + 1; r < first + n; ++r) last = max_of(last, slots[r]);
        return last;
    }
};

/// Where keys stand that are rotated as they are read (LayerKv::angles); without a table they have been rotated before.
struct Angles {
    Rows<const float> table = {};  // [position]: cosines of the pairs, then sines; 16-byte aligned
    int64_t positions = 0;
    Rows<const int32_t> ranks = {};  // [KV head], of its slots; a prefill has none: there a slot is a position
};

/// How many equal ids follow each other from `at` on; 0 where their run has begun before.
TRIREME_GPU int64_t run_at(const int32_t* ids, int64_t at, int64_t count) {
    if (at > 0 && ids[at - 1] == ids[at]) return 0;
    int64_t length = 1;
    while (at + length < count && ids[at + length] == ids[at]) ++length;
    return length;
}

}  // namespace trireme::gpu
