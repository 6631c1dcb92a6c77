#pragma once
/// Second step of attention: merges the records of splits into the result.

#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/splits.h"

namespace trireme::gpu {

/// What one call attends, and where its records are: slots [first, end) of a part, splits [split, split + splits) of a
/// wave. A split that reaches beyond the part is open: the next part continues it.
struct Wave {
    int64_t first, end;
    int64_t split, splits;
    /// Whether a row that sees slots up to `row_end` continues the last split of the wave in the next part.
    template <class Splits>
    TRIREME_GPU bool open(int64_t row_end) const {
        return row_end > end && Splits::first_tile(split + splits) * kTile > end;
    }
};

/// Merges a wave's records of a query vector into its running record, in order. The wave that holds the row's last
/// split writes the result: zeros for a row without visible keys. Splits before the first visible slot have no records.
/// Grid: heads, rows. A block has a query vector; a thread has one element of head_dim. So each thread adds all records
/// in order, without exchange.
template <class Splits>
struct MergeSplits {
    static constexpr int kThreads = 256, kBlocksOfSm = 4;
    static constexpr int kAhead = 16;  // records in flight at once
    static constexpr int64_t kSharedBytes = kAhead * kMaxAndSum * static_cast<int64_t>(sizeof(float));
    static_assert(kAhead * kMaxAndSum <= kThreads, "a thread loads one of the records' maxima and sums");
    struct Args {
        const float* records;
        float* running;  // [head][running_rows][kMaxAndSum + head_dim]; a row has its index in the forward
        RoundedRows out;
        Seen seen;
        const int32_t* kv_of_head;
        int64_t heads, dim;
        Wave wave;
        Rows<float> totals = {};  // [row][head]: maximum and sum (AttentionReport); may be none
        int64_t running_rows = kStaged;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_x(), row = gpu.block_y(), record = kMaxAndSum + a.dim;
        const int64_t kv_head = a.kv_of_head[head], end = a.seen.slots[row] + a.seen.shift(kv_head) + 1;
        const int64_t begin = a.seen.begin(kv_head, row), first_split = a.wave.split;
        if (a.wave.first > 0 && end <= a.wave.first) return;
        // Splits of the row, from this wave's first on. A row that sees nothing has one, so that its result is written.
        const int64_t left = Splits::of_tile(max_of(end - 1, 0) / kTile) + 1 - first_split;
        if (left <= 0) return;
        const int64_t step = a.heads * a.seen.rows * record;
        // Splits of this wave that are complete; 32 bits suffice, and save registers.
        const auto splits = static_cast<int>(a.wave.splits - (a.wave.template open<Splits>(end) ? 1 : 0));
        const auto reach = static_cast<int>(begin < end ? min_of(splits, left) : 0);
        const auto unseen = static_cast<int>(min_of(max_of(Splits::of_tile(begin / kTile) - first_split, 0), splits));
        // An intermediate wave without a split that the row sees changes nothing.
        if (first_split > 0 && unseen >= reach && left > splits) return;
        const int element = gpu.thread();
        const bool used = element < a.dim;
        float* running = a.running + (head * a.running_rows + a.seen.first_row + row) * record;
        const float* records = a.records + (head * a.seen.rows + row) * record;
        float* tops = static_cast<float*>(gpu.shared());  // [split][kMaxAndSum]
        float max = -infinity(), sum = 0, acc = 0;
        if (first_split > 0) {
            max = running[0];
            sum = running[1];
            if (used) acc = running[kMaxAndSum + element];
        }
        for (int first = unseen; first < reach; first += kAhead) {
            float part[kAhead] = {};
            TRIREME_UNROLL
            for (int t = 0; t < kAhead; ++t) {
                if (used && first + t < reach) part[t] = records[(first + t) * step + kMaxAndSum + element];
            }
            gpu.sync();  // all threads have read the running record, and the tops before these
            if (element < kAhead * kMaxAndSum && first + element / kMaxAndSum < reach) {
                tops[element] = records[(first + element / kMaxAndSum) * step + element % kMaxAndSum];
            }
            gpu.sync();
            TRIREME_UNROLL
            for (int t = 0; t < kAhead; ++t) {
                if (first + t >= reach) continue;
                const float split_max = tops[t * kMaxAndSum], split_sum = tops[t * kMaxAndSum + 1];
                const float top = fmaxf(max, split_max), old = exp2f(max - top), fresh = exp2f(split_max - top);
                max = top;
                sum = fmaf(sum, old, split_sum * fresh);
                acc = fmaf(acc, old, part[t] * fresh);
            }
        }
        if (left <= splits) {
            if (used) a.out.put(row, head * a.dim + element, begin < end ? acc / sum : 0.0f);
            if (a.totals.data != nullptr && element == 0) {
                a.totals(row)[2 * head] = max;
                a.totals(row)[2 * head + 1] = sum;
            }
            return;
        }
        if (used) running[kMaxAndSum + element] = acc;
        if (element == 0) {
            running[0] = max;
            running[1] = sum;
        }
    }
};

}  // namespace trireme::gpu
