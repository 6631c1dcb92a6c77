#pragma once
/// Attention over tiles, for decode and prefill rows alike, with KV of any type. A block reads the K and V of a (tile,
/// KV head) once for all query vectors of a sequence. Each leaves a record (max, sum, accumulator); MergeSplits merges
/// these in tile order.
///
/// A score adds its products in an order fixed by head_dim; the sums over a tile run in an order fixed by the slot.
/// Where a key lies (tile or staged row) and how many vectors share it changes none of that.

#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/rotate.h"
#include "kernels/cuda/splits.h"

namespace trireme::gpu {

/// Grid: tiles of the wave, query heads, rows. The block of a run's first head and row has the tile for all query
/// vectors of the run, because they share its keys and values; it writes their records. The other blocks of the run
/// exit at once. So does a block whose tile no row sees: the tile's records remain as they are.
///
/// kLanes threads share a slot, so that they load it whole. Each has every eighth piece of 8 elements: kPieces pieces,
/// head_dim <= kMaxDim. In the softmax a warp has a query vector. kRotates: keys are rotated as they are read.
template <class T, int kPieces, bool kRotates = false>
struct AttendTile {
    using Splits = TileSplits;
    static constexpr int kThreads = 256, kBlocksOfSm = 2;
    static constexpr int kLanes = 8, kSlots = kThreads / kLanes, kWarps = kThreads / kWarp;
    static constexpr int kVectors = 8 / kPieces;  // query vectors at a time: their accumulators are 64 registers
    static constexpr int kLoads = (sizeof(Vec8<T>) + 15) / sizeof(Bits16);            // per piece
    static constexpr int kAhead = kPieces * kLoads < 4 ? 4 / (kPieces * kLoads) : 1;  // slots in flight at once
    static constexpr bool kEarly = kAhead > 1;  // else one slot's pieces are enough, and registers are short
    static constexpr int64_t kMaxDim = 64 * kPieces;
    static constexpr int64_t kScores = kVectors * kTile, kQueries = kVectors * kMaxDim;
    static constexpr int64_t kSharedBytes =
        (kScores + kQueries + kWarps * kVectors * kMaxDim + 3 * kVectors + 1) * static_cast<int64_t>(sizeof(float));
    static_assert(kThreads % kWarp == 0 && kWarp % kLanes == 0 && (kLanes & (kLanes - 1)) == 0,
                  "the lanes of a slot are in one warp, and add by shuffle_xor");
    static_assert(kTile % (kAhead * kSlots) == 0, "all lanes of a warp walk the tile in whole steps");
    static_assert(kMaxDim == kLanes * kPieces * 8 && kVectors * kPieces == 8);
    static_assert(kWarps <= kScores && kVectors <= kThreads, "block_sum uses the scores; a thread has a vector's ends");
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        Kv kv;
        Seen seen;
        Rows<const float> q;
        const int32_t* kv_of_head;
        int64_t heads, first_tile, max_slots;
        float* records;  // [tile of the wave][head][row][kMaxAndSum + head_dim]
        float scale;     // of scores, log2(e) included
        Angles angles = {};
        Rows<float> weights = {}, tops = {};  // [head], of one row (AttentionReport); may be none
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_y(), row = gpu.block_z(), tile = a.first_tile + gpu.block_x();
        const int64_t kv_head = a.kv_of_head[head];
        const int32_t sequence = a.seen.sequences[row];
        const int64_t heads = run_at(a.kv_of_head, head, a.heads), rows = run_at(a.seen.sequences, row, a.seen.rows);
        if (heads == 0 || rows == 0) return;
        // A graph has blocks for the whole context. Inconsistent rows are detected in the first tile.
        const bool used = tile * kTile <= a.seen.last_slot(row, rows) + a.seen.shift(kv_head) &&
                          a.seen.begin_of_rows(kv_head, row, rows) < (tile + 1) * kTile;
        if (tile > 0 && !used) return;
        char* memory = a.kv.tile(a.kv.row_of(sequence, kv_head), tile);
        if (!validate(gpu, a, row, rows, kv_head, tile, memory) || !used) return;
        const auto vectors = static_cast<int>(rows * heads);
        for (int v = 0; v < vectors; v += kVectors) {
            const int count = vectors - v < kVectors ? vectors - v : kVectors;
            const Vectors c = {static_cast<int>(head), static_cast<int>(heads), row, kv_head, tile, v, count, memory};
            attend(gpu, a, c);  // no thread still reads what the next ones write before their first barrier
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

    /// Checks that rows agree with themselves and with the head, and that their tokens have tiles. All threads of the
    /// block return the same answer.
    template <class Gpu>
    TRIREME_GPU static bool validate(Gpu& gpu, const Args& a, int64_t row, int64_t rows, int64_t kv_head, int64_t tile,
                                     char* memory) {
        const int64_t shift = a.seen.shift(kv_head);
        bool good = check_counts(gpu, a.seen, kv_head);
        for (int64_t r = row + gpu.thread(); r < row + rows; r += kThreads) {
            const int64_t p = a.seen.slots[r], in_tiles = a.seen.in_tiles(r);
            bool order = check_row(gpu, a.seen, a.max_slots, kv_head, row, r);
            if (kRotates && order && p >= a.angles.positions) {
                gpu.fault(Fault::kPosition, p, a.angles.positions);
                order = false;
            }
            good = good && order;
            if (order && tile * kTile < in_tiles + shift && memory == nullptr) {
                gpu.fault(Fault::kTile, tile * kTile, a.seen.sequences[r]);
                good = false;
            }
        }
        if (kRotates && good && a.angles.ranks.data != nullptr) good = ranked(gpu, a, kv_head, tile);
        return block_sum<kThreads>(gpu, good ? 0.0f : 1.0f) == 0;
    }

    /// Checks that the slots that this thread reads have valid ranks.
    template <class Gpu>
    TRIREME_GPU static bool ranked(Gpu& gpu, const Args& a, int64_t kv_head, int64_t tile) {
        const int64_t count = a.seen.counts[kv_head], end = min_of(count, (tile + 1) * kTile);
        for (int64_t s = tile * kTile + gpu.thread(); s < end; s += kThreads) {
            const int64_t rank = a.angles.ranks(kv_head)[s];
            if (rank >= 0 && rank < count) continue;
            gpu.fault(Fault::kRank, rank, count);
            return false;
        }
        return true;
    }

    /// Location of a slot's token for vector v: -1 none, kCached in the tile, else a staged row.
    static constexpr int kCached = kStaged;
    struct Reach {
        int32_t* ends;  // [vector]: the first slot that is not in the tile, the first not seen, the first seen

        TRIREME_GPU int32_t& tile_end(int v) const { return ends[3 * v]; }
        TRIREME_GPU int32_t& end(int v) const { return ends[3 * v + 1]; }
        TRIREME_GPU int32_t& begin(int v) const { return ends[3 * v + 2]; }
        /// The head's Seen::shift.
        TRIREME_GPU int32_t& shift() const { return ends[3 * kVectors]; }
        TRIREME_GPU int place(const Args& a, const Vectors& c, int v, int slot) const {
            if (slot < begin(v)) return -1;
            if (slot < tile_end(v)) return kCached;
            if (slot >= end(v)) return -1;
            return a.seen.ancestors(c.row_of(v))[slot - tile_end(v)];
        }
        /// End of the slots that some vector sees in the tile.
        TRIREME_GPU int in_tile(const Vectors& c) const {
            int most = 0;
            for (int v = 0; v < c.count; ++v) most = tile_end(v) > most ? tile_end(v) : most;
            return most;
        }
    };

    /// A thread's pieces of a slot; those beyond head_dim are zeros.
    struct Slot {
        Vec8<T> piece[kPieces];

        template <class Gpu>
        TRIREME_GPU void load(Gpu& gpu, const char* slot, int64_t dim, DType type) {
            for (int p = 0; p < kPieces; ++p) {
                const int element = (p * kLanes + gpu.thread() % kLanes) * 8;
                piece[p] = {};
                if (element < dim) piece[p].load(gpu, slot, static_cast<int>(dim), element, type);
            }
        }
        TRIREME_GPU void widen_to(float (&to)[kPieces][8], DType type) const {
            for (int p = 0; p < kPieces; ++p) piece[p].widen_to(to[p], type);
        }
    };

    /// Addresses in a slot, by the location that Reach::place returned.
    TRIREME_GPU static const char* key_at(const Args& a, const Vectors& c, int place, int slot) {
        return place == kCached ? a.kv.key(c.memory, c.kv_head, slot) : a.kv.staged_key(c.kv_head, place);
    }
    TRIREME_GPU static const char* value_at(const Args& a, const Vectors& c, int place, int slot) {
        return place == kCached ? a.kv.value(c.memory, c.kv_head, slot) : a.kv.staged_value(c.kv_head, place);
    }

    /// Rotates a thread's pieces of a key by the key's position.
    template <class Gpu>
    TRIREME_GPU static void rotate(Gpu& gpu, const Args& a, const Vectors& c, Reach reach, int place, int slot,
                                   float (&key)[kPieces][8]) {
        const int64_t at = c.tile * kTile + slot;
        const bool by_rank = place == kCached && a.angles.ranks.data != nullptr;
        const float* angle = a.angles.table((by_rank ? a.angles.ranks(c.kv_head)[at] : at) - reach.shift());
        TRIREME_UNROLL  // else `key` is indexed at run time and lies in local memory
            for (int p = 0; p < kPieces; ++p) {
            const int element = (p * kLanes + gpu.thread() % kLanes) * 8;
            if (element >= a.kv.dim) continue;
            rotate_eight<T>(gpu, key_at(a, c, place, slot), angle, element, static_cast<int>(a.kv.dim), a.kv.k_type,
                            key[p]);
        }
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
            const int64_t r = c.row_of(v), shift = a.seen.shift(c.kv_head), begin = c.tile * kTile - shift;
            reach.tile_end(v) = static_cast<int32_t>(a.seen.in_tiles(r) - begin);
            reach.end(v) = static_cast<int32_t>(a.seen.slots[r] + 1 - begin);
            reach.begin(v) = static_cast<int32_t>(a.seen.begin(c.kv_head, r) - c.tile * kTile);
            if (v == 0) reach.shift() = static_cast<int32_t>(shift);
        }
        for (int i = gpu.thread(); i < c.count * dim; i += kThreads) {
            const int v = i / dim;
            queries[v * kMaxDim + i % dim] = a.q(c.row_of(v))[c.head_of(v) * dim + i % dim] * a.scale;
        }
        gpu.sync();
        score(gpu, a, c, reach, queries, scores);
        gpu.sync();
        softmax(gpu, a, c, reach, scores);
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
                        if constexpr (kRotates) rotate(gpu, a, c, reach, at, slot, key);
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

    /// Turns scores into powers of two below the tile's maximum; records maximum and sum. A warp has one vector.
    template <class Gpu>
    TRIREME_GPU static void softmax(Gpu& gpu, const Args& a, const Vectors& c, Reach reach, float* scores) {
        const int lane = gpu.thread() % kWarp;
        for (int v = gpu.thread() / kWarp; v < c.count; v += kWarps) {
            float* s = scores + v * kTile;
            float max = -infinity(), sum = 0;
            for (int i = lane; i < kTile; i += kWarp) max = fmaxf(max, s[i]);
            max = warp_max(gpu, max);
            for (int i = lane; i < kTile; i += kWarp) {
                s[i] = s[i] == -infinity() ? 0.0f : exp2f(s[i] - max);  // also where the row sees nothing here
                sum += s[i];
            }
            sum = warp_sum(gpu, sum);
            if (lane == 0) {
                float* record = record_of(a, c, v, gpu.block_x());
                record[0] = max;
                record[1] = sum;
            }
            if (a.weights.data == nullptr) continue;
            float* weights = a.weights(c.head_of(v)) + c.tile * kTile;
            for (int i = lane; i < kTile && i < reach.end(v); i += kWarp) weights[i] = s[i];
            if (lane == 0) a.tops(c.head_of(v))[c.tile] = max;
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
                    if (at < 0) continue;  // values that are not seen may be NaN
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
        // Adds the four slots of a warp, then the warps in order.
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

}  // namespace trireme::gpu
