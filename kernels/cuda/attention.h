#pragma once
/// Attention over tiles, for decode and prefill rows alike: a block a (tile, KV head), which reads K and V once for all
/// query vectors of a sequence; each leaves (max, sum, accumulator), and the records are merged in tile order.
///
/// A score adds its products in an order fixed by head_dim; the sums over a tile run in an order fixed by the slot;
/// where a key lies (tile or staged row) and how many vectors share it changes none of that.

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

/// 8 consecutive elements of a slot, as they travel and widened. Types are known to the compiler, or looked at as the
/// kernel runs: mixed ones are rare and need not be fast.
template <class T>
struct Eight {
    Bits16 bits = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType) {
        bits = gpu.load16(reinterpret_cast<const T*>(slot) + first);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType) const {
        for (int i = 0; i < 8; ++i) to[i] = widen(element<T>(bits, i));
    }
};
template <>
struct Eight<float> {
    Bits16 low = {}, high = {};

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType) {
        low = gpu.load16(reinterpret_cast<const float*>(slot) + first);
        high = gpu.load16(reinterpret_cast<const float*>(slot) + first + 4);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType) const {
        for (int i = 0; i < 4; ++i) {
            to[i] = float_of(low.word[i]);
            to[i + 4] = float_of(high.word[i]);
        }
    }
};
struct AnyType {};
template <>
struct Eight<AnyType> {
    Eight<float> held;  // those of 16 bits in its lower half

    template <class Gpu>
    TRIREME_GPU void load(Gpu& gpu, const char* slot, int first, DType type) {
        if (type == DType::kF32) return held.load(gpu, slot, first, type);
        held.low = gpu.load16(reinterpret_cast<const uint16_t*>(slot) + first);
    }
    TRIREME_GPU void widen_to(float (&to)[8], DType type) const {
        if (type == DType::kF16) return Eight<f16>{held.low}.widen_to(to, type);
        if (type == DType::kBF16) return Eight<bf16>{held.low}.widen_to(to, type);
        held.widen_to(to, type);
    }
};

/// Grid: tiles of the wave, query heads, rows; blocks of a head or row that is not the first of its run leave at once,
/// and those of a tile of which no row sees anything: its records stay as they are.
/// Eight threads share a slot, each with every eighth piece of 8 elements: kPieces pieces, head_dim <= 64 * kPieces.
template <class T, int kPieces>
struct AttendTile {
    static constexpr int kThreads = 256, kBlocksOfSm = 2;
    static constexpr int kLanes = 8, kSlots = kThreads / kLanes, kWarps = kThreads / kWarp;
    static constexpr int kVectors = 8 / kPieces;  // query vectors at a time: their accumulators are 64 registers
    static constexpr int kLoads = sizeof(Eight<T>) / sizeof(Bits16);                  // of a piece
    static constexpr int kAhead = kPieces * kLoads < 4 ? 4 / (kPieces * kLoads) : 1;  // slots on their way at once
    static constexpr bool kEarly = kAhead > 1;  // else the pieces of one are enough, and registers are not
    static constexpr int64_t kMaxDim = 64 * kPieces;
    static constexpr int64_t kScores = kVectors * kTile, kQueries = kVectors * kMaxDim;
    static constexpr int64_t kSharedBytes =
        (kScores + kQueries + kWarps * kVectors * kMaxDim + 2 * kVectors) * static_cast<int64_t>(sizeof(float));
    struct Args {
        Kv kv;
        Seen seen;
        Rows<const float> q;
        const int32_t* kv_of_head;
        int64_t heads, first_tile, max_slots;
        float* records;  // [tile of the wave][head][row][kMaxAndSum + head_dim]
        float scale;     // of scores, log2(e) included
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_y(), row = gpu.block_z(), tile = a.first_tile + gpu.block_x();
        const int64_t kv_head = a.kv_of_head[head];
        const int32_t sequence = a.seen.sequences[row];
        const int64_t heads = run_at(a.kv_of_head, head, a.heads), rows = run_at(a.seen.sequences, row, a.seen.rows);
        if (heads == 0 || rows == 0) return;
        // A graph has blocks for all of the context. What contradicts itself is noticed in the first tile.
        if (tile > 0 && tile * kTile > a.seen.last_slot(row, rows)) return;
        char* memory = a.kv.tile(sequence, tile);
        if (!sound(gpu, a, row, rows, tile, memory)) return;
        const auto vectors = static_cast<int>(rows * heads);
        for (int v = 0; v < vectors; v += kVectors) {
            const int count = vectors - v < kVectors ? vectors - v : kVectors;
            const Vectors c = {static_cast<int>(head), static_cast<int>(heads), row, kv_head, tile, v, count, memory};
            attend(gpu, a, c);  // nobody reads any more what the next ones write before their first barrier
        }
    }

  private:
    /// Query vectors [first, first + count) of a run: vector v is head `head + v % heads` of row `row + v / heads`.
    struct Vectors {
        int head, heads;
        int64_t row, kv_head, tile;
        int first, count;
        char* memory;

        TRIREME_GPU int64_t row_of(int v) const { return row + (first + v) / heads; }
        TRIREME_GPU int head_of(int v) const { return head + (first + v) % heads; }
    };

    /// The rows agree with themselves and their tokens have tiles. The same answer in every thread of the block.
    template <class Gpu>
    TRIREME_GPU static bool sound(Gpu& gpu, const Args& a, int64_t row, int64_t rows, int64_t tile, char* memory) {
        bool good = true;
        for (int64_t r = row + gpu.thread(); r < row + rows; r += kThreads) {
            const int64_t p = a.seen.slots[r], in_tiles = a.seen.in_tiles(r), staged = p - in_tiles;
            bool order = in_tiles >= 0 && p < a.max_slots && staged < kStaged && (a.seen.prefill || staged >= 0);
            if (a.seen.prefill) order = order && p == a.seen.slots[row] + (r - row);
            if (!order) gpu.fault(Fault::kRowOrder, p, in_tiles);
            for (int64_t i = 0; order && !a.seen.prefill && i <= staged; ++i) {
                const int32_t ancestor = a.seen.ancestors(r)[i];
                if (ancestor >= 0 && ancestor < a.seen.staged) continue;
                gpu.fault(Fault::kAncestor, ancestor, r);
                order = false;
            }
            good = good && order;
            if (order && tile * kTile < in_tiles && memory == nullptr) {
                gpu.fault(Fault::kTile, tile * kTile, a.seen.sequences[r]);
                good = false;
            }
        }
        return block_sum<kThreads>(gpu, good ? 0.0f : 1.0f) == 0;
    }

    /// Where vector v finds what belongs into a slot: -1 nowhere, kCached in the tile, else in that staged row.
    static constexpr int kCached = kStaged;
    struct Reach {
        int32_t* ends;  // [vector]: the first slot that is not in the tile, the first that is not seen

        TRIREME_GPU int place(const Args& a, const Vectors& c, int v, int slot) const {
            if (slot < ends[2 * v]) return kCached;
            if (slot >= ends[2 * v + 1]) return -1;
            return a.seen.ancestors(c.row_of(v))[slot - (a.seen.cached[c.row_of(v)] - c.tile * kTile)];
        }
        /// The first slot that no vector sees in the tile.
        TRIREME_GPU int in_tile(const Vectors& c) const {
            int most = 0;
            for (int v = 0; v < c.count; ++v) most = ends[2 * v] > most ? ends[2 * v] : most;
            return most;
        }
    };

    /// A thread's pieces of a slot; those beyond head_dim are zeros.
    struct Slot {
        Eight<T> piece[kPieces];

        template <class Gpu>
        TRIREME_GPU void load(Gpu& gpu, const char* slot, int64_t dim, DType type) {
            for (int p = 0; p < kPieces; ++p) {
                const int element = (p * kLanes + gpu.thread() % kLanes) * 8;
                piece[p] = {};
                if (element < dim) piece[p].load(gpu, slot, element, type);
            }
        }
        TRIREME_GPU void widen_to(float (&to)[kPieces][8], DType type) const {
            for (int p = 0; p < kPieces; ++p) piece[p].widen_to(to[p], type);
        }
    };

    /// What Reach::place found for a slot.
    TRIREME_GPU static const char* key_at(const Args& a, const Vectors& c, int place, int slot) {
        return place == kCached ? a.kv.key(c.memory, c.kv_head, slot) : a.kv.staged_key(c.kv_head, place);
    }
    TRIREME_GPU static const char* value_at(const Args& a, const Vectors& c, int place, int slot) {
        return place == kCached ? a.kv.value(c.memory, c.kv_head, slot) : a.kv.staged_value(c.kv_head, place);
    }

    template <class Gpu>
    TRIREME_GPU static void attend(Gpu& gpu, const Args& a, const Vectors& c) {
        float* scores = static_cast<float*>(gpu.shared());
        float* queries = scores + kScores;
        float* sums = queries + kQueries;  // [warp][vector][kMaxDim]
        const Reach reach = {reinterpret_cast<int32_t*>(sums + kWarps * kVectors * kMaxDim)};
        const auto dim = static_cast<int>(a.kv.dim);
        if (gpu.thread() < c.count) {
            const int v = gpu.thread();
            const int64_t r = c.row_of(v), begin = c.tile * kTile;
            reach.ends[2 * v] = static_cast<int32_t>(a.seen.in_tiles(r) - begin);
            reach.ends[2 * v + 1] = static_cast<int32_t>(a.seen.slots[r] + 1 - begin);
        }
        for (int i = gpu.thread(); i < c.count * dim; i += kThreads) {
            const int v = i / dim;
            queries[v * kMaxDim + i % dim] = a.q(c.row_of(v))[c.head_of(v) * dim + i % dim] * a.scale;
        }
        gpu.sync();
        score(gpu, a, c, reach, queries, scores);
        gpu.sync();
        soften(gpu, a, c, scores);
        gpu.sync();
        weigh(gpu, a, c, reach, scores, sums);
    }

    template <class Gpu>
    TRIREME_GPU static void score(Gpu& gpu, const Args& a, const Vectors& c, Reach reach, const float* queries,
                                  float* scores) {
        const int lane = gpu.thread() % kLanes, in_tile = reach.in_tile(c);
        for (int first = gpu.thread() / kLanes; first < kTile; first += kAhead * kSlots) {
            Slot keys[kAhead];
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                const int slot = first + s * kSlots;
                if (kEarly && slot < in_tile) keys[s].load(gpu, key_at(a, c, kCached, slot), a.kv.dim, a.kv.k_type);
            }
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                const int slot = first + s * kSlots;
                float key[kPieces][8];
                int held = -1;
                for (int v = 0; v < c.count; ++v) {
                    const int at = reach.place(a, c, v, slot);
                    if (at >= 0 && at != held) {
                        if (!kEarly || at != kCached || held >= 0)
                            keys[s].load(gpu, key_at(a, c, at, slot), a.kv.dim, a.kv.k_type);
                        keys[s].widen_to(key, a.kv.k_type);
                        held = at;
                    }
                    float sum = 0;
                    for (int p = 0; p < kPieces && at >= 0; ++p) {
                        const int element = (p * kLanes + lane) * 8;
                        for (int i = 0; i < 8 && element < a.kv.dim; ++i) {
                            sum = fmaf(queries[v * kMaxDim + element + i], key[p][i], sum);
                        }
                    }
                    for (int mask = kLanes / 2; mask > 0; mask /= 2) sum += gpu.shuffle_xor(sum, mask);
                    if (lane == 0) scores[v * kTile + slot] = at < 0 ? -infinity() : sum;
                }
            }
        }
    }

    /// Scores become powers of two below the tile's maximum; maximum and sum go into the record.
    template <class Gpu>
    TRIREME_GPU static void soften(Gpu& gpu, const Args& a, const Vectors& c, float* scores) {
        const int lane = gpu.thread() % kWarp;
        for (int v = gpu.thread() / kWarp; v < c.count; v += kWarps) {
            float* s = scores + v * kTile;
            float max = -infinity(), sum = 0;
            for (int i = lane; i < kTile; i += kWarp) max = fmaxf(max, s[i]);
            max = warp_max(gpu, max);
            for (int i = lane; i < kTile; i += kWarp) {
                s[i] = s[i] == -infinity() ? 0.0f : exp2f(s[i] - max);
                sum += s[i];
            }
            sum = warp_sum(gpu, sum);
            if (lane == 0) {
                float* record = record_of(a, c, v, gpu.block_x());
                record[0] = max;
                record[1] = sum;
            }
        }
    }

    template <class Gpu>
    TRIREME_GPU static void weigh(Gpu& gpu, const Args& a, const Vectors& c, Reach reach, const float* scores,
                                  float* sums) {
        const int lane = gpu.thread() % kLanes, warp = gpu.thread() / kWarp, in_tile = reach.in_tile(c);
        float acc[kVectors][kPieces][8] = {};
        for (int first = gpu.thread() / kLanes; first < kTile; first += kAhead * kSlots) {
            Slot values[kAhead];
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                const int slot = first + s * kSlots;
                if (kEarly && slot < in_tile) values[s].load(gpu, value_at(a, c, kCached, slot), a.kv.dim, a.kv.v_type);
            }
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                const int slot = first + s * kSlots;
                float value[kPieces][8];
                int held = -1;
                TRIREME_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    const int at = v < c.count ? reach.place(a, c, v, slot) : -1;
                    if (at < 0) continue;  // what is not seen may be NaN
                    if (at != held) {
                        if (!kEarly || at != kCached || held >= 0)
                            values[s].load(gpu, value_at(a, c, at, slot), a.kv.dim, a.kv.v_type);
                        values[s].widen_to(value, a.kv.v_type);
                        held = at;
                    }
                    const float weight = scores[v * kTile + slot];
                    for (int p = 0; p < kPieces; ++p) {
                        for (int i = 0; i < 8; ++i) acc[v][p][i] = fmaf(weight, value[p][i], acc[v][p][i]);
                    }
                }
            }
        }
        // The four slots of a warp, then the warps in their order.
        TRIREME_UNROLL
        for (int v = 0; v < kVectors; ++v) {
            for (int p = 0; p < kPieces; ++p) {
                for (int i = 0; i < 8; ++i) {
                    float x = acc[v][p][i];
                    for (int mask = kLanes; mask < kWarp; mask *= 2) x += gpu.shuffle_xor(x, mask);
                    if (gpu.thread() % kWarp < kLanes) {
                        sums[(warp * kVectors + v) * kMaxDim + (int64_t{p} * kLanes + lane) * 8 + i] = x;
                    }
                }
            }
        }
        gpu.sync();
        const auto dim = static_cast<int>(a.kv.dim);
        for (int at = gpu.thread(); at < c.count * dim; at += kThreads) {
            const int v = at / dim, element = at % dim;
            float total = 0;
            for (int w = 0; w < kWarps; ++w) total += sums[(w * kVectors + v) * kMaxDim + element];
            record_of(a, c, v, gpu.block_x())[kMaxAndSum + element] = total;
        }
    }

    TRIREME_GPU static float* record_of(const Args& a, const Vectors& c, int v, int64_t tile_of_wave) {
        return a.records +
               ((tile_of_wave * a.heads + c.head_of(v)) * a.seen.rows + c.row_of(v)) * (kMaxAndSum + a.kv.dim);
    }
};

/// The wave's records of a query vector, merged in tile order into the running one; out in the wave that holds the
/// row's last tile. Grid: heads, rows; a thread an element of head_dim.
struct MergeTiles {
    static constexpr int kThreads = 256, kBlocksOfSm = 4;
    static constexpr int kAhead = 16;  // tiles whose records are on their way at once
    static constexpr int64_t kSharedBytes = kAhead * kMaxAndSum * static_cast<int64_t>(sizeof(float));
    struct Args {
        const float* records;
        float* running;  // [head][row][kMaxAndSum + head_dim]
        Rows<float> out;
        const int32_t* slots;
        int64_t heads, rows, dim, first_tile, tiles;  // of this wave
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_x(), row = gpu.block_y(), record = kMaxAndSum + a.dim;
        const int64_t left = a.slots[row] / kTile + 1 - a.first_tile;  // tiles of the row, from this wave's first on
        if (a.first_tile > 0 && left <= 0) return;
        const int64_t reach = min_of(a.tiles, left), step = a.heads * a.rows * record;
        const int element = gpu.thread();
        const bool used = element < a.dim;
        float* running = a.running + (head * a.rows + row) * record;
        const float* records = a.records + (head * a.rows + row) * record;
        float* tops = static_cast<float*>(gpu.shared());  // [tile][kMaxAndSum]
        float max = -infinity(), sum = 0, acc = 0;
        if (a.first_tile > 0) {
            max = running[0];
            sum = running[1];
            if (used) acc = running[kMaxAndSum + element];
        }
        for (int64_t first = 0; first < reach; first += kAhead) {
            float part[kAhead] = {};
            TRIREME_UNROLL
            for (int t = 0; t < kAhead; ++t) {
                if (used && first + t < reach) part[t] = records[(first + t) * step + kMaxAndSum + element];
            }
            gpu.sync();  // everybody has read what is running, and the tops before these
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
            if (used) a.out(row)[head * a.dim + element] = acc / sum;
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
