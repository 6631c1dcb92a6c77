#pragma once
/// Second step of attention: merges the records of tiles into the result.

#include "kernels/cuda/attention_rows.h"

namespace trireme::gpu {

/// Merges a wave's records of a query vector into its running record, in tile order. The wave that holds the row's last
/// tile writes the result: zeros for a row without visible keys. Tiles before the first visible slot have no records.
/// Grid: heads, rows. A block has a query vector; a thread has one element of head_dim. So each thread adds all tiles
/// in order, without exchange.
struct MergeTiles {
    static constexpr int kThreads = 256, kBlocksOfSm = 4;
    static constexpr int kAhead = 16;  // tiles whose records are in flight at once
    static constexpr int64_t kSharedBytes = kAhead * kMaxAndSum * static_cast<int64_t>(sizeof(float));
    static_assert(kAhead * kMaxAndSum <= kThreads, "a thread loads one of the tiles' maxima and sums");
    struct Args {
        const float* records;
        float* running;  // [head][running_rows][kMaxAndSum + head_dim]; a row has its index in the forward
        Rows<float> out;
        Seen seen;
        const int32_t* kv_of_head;
        int64_t heads, dim, first_tile, tiles;  // of this wave
        Rows<float> totals = {};                // [row][head]: maximum and sum (AttentionReport); may be none
        int64_t running_rows = kStaged;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_x(), row = gpu.block_y(), record = kMaxAndSum + a.dim;
        const int64_t kv_head = a.kv_of_head[head], end = a.seen.slots[row] + a.seen.shift(kv_head) + 1;
        const int64_t begin = a.seen.begin(kv_head, row);
        // Tiles of the row, from this wave's first on. A row that sees nothing has one, so that its result is written.
        const int64_t left = max_of(div_up(end, kTile), 1) - a.first_tile;
        if (a.first_tile > 0 && left <= 0) return;
        const int64_t step = a.heads * a.seen.rows * record;
        // Tiles of this wave; 32 bits suffice, and save registers.
        const auto reach = static_cast<int>(begin < end ? min_of(a.tiles, left) : 0);
        const auto unseen = static_cast<int>(min_of(max_of(begin / kTile - a.first_tile, 0), a.tiles));
        // An intermediate wave without a tile that the row sees changes nothing.
        if (a.first_tile > 0 && unseen >= reach && left > a.tiles) return;
        const int element = gpu.thread();
        const bool used = element < a.dim;
        float* running = a.running + (head * a.running_rows + a.seen.first_row + row) * record;
        const float* records = a.records + (head * a.seen.rows + row) * record;
        float* tops = static_cast<float*>(gpu.shared());  // [tile][kMaxAndSum]
        float max = -infinity(), sum = 0, acc = 0;
        if (a.first_tile > 0) {
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
                const float tile_max = tops[t * kMaxAndSum], tile_sum = tops[t * kMaxAndSum + 1];
                const float top = fmaxf(max, tile_max), old = exp2f(max - top), fresh = exp2f(tile_max - top);
                max = top;
                sum = fmaf(sum, old, tile_sum * fresh);
                acc = fmaf(acc, old, part[t] * fresh);
            }
        }
        if (left <= a.tiles) {
            if (used) a.out(row)[head * a.dim + element] = begin < end ? acc / sum : 0.0f;
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
