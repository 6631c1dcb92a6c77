#pragma once
/// What attention's kernels have in common: rows, runs of them, and records of a tile.

#include "kernels/cuda/kv.h"

namespace trireme::gpu {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr int kMaxAndSum = 2;  // of a record, before the accumulator

/// Rows as attention sees them (kernels/kv.h, RowsView). Prefill rows are consecutive and have nothing staged.
struct Seen {
    const int32_t *slots, *sequences, *cached;
    Rows<const int32_t> ancestors;
    int64_t rows, staged;
    bool prefill;

    /// Slots of tiles that row r sees.
    TRIREME_GPU int64_t in_tiles(int64_t r) const { return prefill ? slots[r] + 1 : cached[r]; }
    /// Of `n` rows from `first` on, the largest slot.
    TRIREME_GPU int64_t last_slot(int64_t first, int64_t n) const {
        if (prefill) return slots[first + n - 1];
        int64_t last = slots[first];
        for (int64_t r = first + 1; r < first + n; ++r) last = max_of(last, slots[r]);
        return last;
    }
};

/// How many equal ids follow each other from `at` on; 0 where their run has begun before.
TRIREME_GPU int64_t run_at(const int32_t* ids, int64_t at, int64_t count) {
    if (at > 0 && ids[at - 1] == ids[at]) return 0;
    int64_t length = 1;
    while (at + length < count && ids[at + length] == ids[at]) ++length;
    return length;
}

}  // namespace trireme::gpu
