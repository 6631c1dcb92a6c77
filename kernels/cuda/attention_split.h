#pragma once
/// Attention over KV of 16 bits on tensor cores, split by KV length. The query vectors that share a KV head and a
/// sequence are the rows of mma tiles, so a block reads the keys and values of its split once for all of them.
///
/// A score adds its products in an order fixed by head_dim. The softmax walks the slots of a split in steps of kKeys,
/// with a running maximum. Steps, splits and their order depend on slots alone; a step that shows a vector nothing
/// changes no bit of it. So a row's bits do not depend on the other rows, nor on where its keys are stored. There is
/// one exception: if a value is NaN, or infinite in bf16, the results of all rows of its block are NaN whose path has
/// the value.

#include "kernels/cuda/split_tile.h"

namespace trireme::gpu {

/// Grid: groups of kVectors query vectors, KV heads, splits of the wave. Block x takes the groups x, x + width,
/// x + 2 width and so on; with equally many query heads for each KV head there is one.
///
/// Threads copy keys and values asynchronously, into two buffers each: those of the next step are in flight while a
/// step is attended.
template <class T, int kHeadDim, int kTiles>
struct AttendSplit : SplitTile<T, kHeadDim, kTiles> {
    using Splits = GradedSplits;
    using Tile = SplitTile<T, kHeadDim, kTiles>;
    using Tile::kBuffer, Tile::kDim, Tile::kGroups, Tile::kKeys, Tile::kMostTiles, Tile::kScoreStride, Tile::kStride,
        Tile::kThreads, Tile::kVectors, Tile::kWeightScale;
    using typename Tile::Shared, typename Tile::State, typename Tile::Vectors;
    static constexpr int kBlocksOfSm = kTiles == 1 && kDim <= 128 ? 3 : 2;
    static constexpr int kPieces = kDim / 8;  // of 16 bytes, of a key
    static_assert(kKeys * kPieces % kThreads == 0, "all threads copy equally many pieces where slots are checked");
    static_assert(kMostTiles == Splits::first_tile(1000) - Splits::first_tile(999));
    struct Args {
        Kv kv;
        Seen seen;
        Rows<const float> q;
        const int32_t* kv_of_head;
        int64_t heads, max_slots;
        Wave wave;
        int width;       // of the grid
        float* records;  // [split of the wave][head][row][kMaxAndSum + head_dim]
        float* open;     // [head][open_rows][kMaxAndSum + head_dim]: splits that the next part continues
        int64_t open_rows;
        float scale;                          // of scores, log2(e) included
        Rows<float> weights = {}, tops = {};  // [head], of one row (AttentionReport); may be none
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        for (int group = gpu.block_x(), groups = group + 1; group < groups; group += a.width) {
            gpu.sync();  // shared memory is used again
            const Place place = find(gpu, a, group, groups);
            if (place.count > 0) attend(gpu, a, place);
        }
    }

  private:
    /// Vectors [first, first + count) of rows [row, row + rows), which are one run, and of the heads of a KV head.
    struct Place {
        int row, rows, head, heads, first, count;
    };
    /// Returns the place of a group of the block's KV head, count 0 if there is none; `groups`: how many there are.
    template <class Gpu>
    TRIREME_GPU static Place find(Gpu& gpu, const Args& a, int group, int& groups) {
        const int kv_head = gpu.block_y();
        int less = 0, equal = 0;
        for (int64_t h = gpu.thread(); h < a.heads; h += kThreads) {
            less += a.kv_of_head[h] < kv_head ? 1 : 0;
            equal += a.kv_of_head[h] == kv_head ? 1 : 0;
        }
        constexpr int kMostHeads = 2048;  // two numbers in one sum, which is exact
        const auto both = static_cast<int>(block_sum<kThreads>(gpu, static_cast<float>(less * kMostHeads + equal)));
        Place place = {0, 0, both / kMostHeads, both % kMostHeads, 0, 0};
        groups = 0;
        for (int row = 0; row < a.seen.rows;) {
            const auto rows = static_cast<int>(run_at(a.seen.sequences, row, a.seen.rows));
            const int vectors = a.seen.sequences[row] < 0 ? 0 : rows * place.heads;  // none of padding rows
            const auto more = static_cast<int>(div_up(vectors, kVectors));
            if (group >= groups && group < groups + more) {
                place.row = row;
                place.rows = rows;
                place.first = (group - groups) * kVectors;
                place.count = static_cast<int>(min_of(vectors - place.first, kVectors));
            }
            groups += more;
            row += rows;
        }
        return place;
    }
    template <class Gpu>
    TRIREME_GPU static void attend(Gpu& gpu, const Args& a, const Place& p) {
        const Shared s = Tile::shared(gpu);
        const Vectors v = {s.vectors, a.seen, p.row, p.head, p.heads, gpu.block_y(), p.first, p.count};
        v.read(gpu);
        const int64_t split = a.wave.split + gpu.block_z();
        const int64_t first = max_of(Splits::first_tile(split) * kTile, a.wave.first);
        const int64_t last = min_of(Splits::first_tile(split + 1) * kTile, a.wave.end);
        const auto end = static_cast<int>(min_of(last, v.most_end()));
        const auto begin = static_cast<int>(min_of(max_of(first, v.least_begin() / kKeys * kKeys), end));
        const bool used = begin < end, staged = used && end > v.least_tiled();
        // A graph has blocks for the whole context. Inconsistent rows are detected in the first split.
        if (split > 0 && !used) return;
        if (!valid(gpu, a, p, v, s, begin, end, split == 0 || staged) || !used) return;
        if (staged) v.find_paths(gpu);
        Tile::load_queries(gpu, a.q, a.scale, static_cast<int>(a.kv.dim), v, s);
        State state;
        resume(gpu, a, v, split, state);
        walk(gpu, a, v, s, begin, end, state);
        store(gpu, a, v, split, state);
        if (a.weights.data != nullptr) weigh(gpu, a, v, s, split, end, state);
    }

    /// Checks that rows agree with themselves and with the head, and that their tokens have tiles. All threads of the
    /// block return the same answer. `rows`: whether to check the rows. Also reads the addresses of the tiles.
    template <class Gpu>
    TRIREME_GPU static bool valid(Gpu& gpu, const Args& a, const Place& p, const Vectors& v, const Shared& s, int begin,
                                  int end, bool rows) {
        bool good = check_counts(gpu, a.seen, v.kv_head);
        for (int r = p.row + gpu.thread(); rows && r < p.row + p.rows; r += kThreads) {
            good = check_row(gpu, a.seen, a.max_slots, v.kv_head, p.row, r) && good;
        }
        const int32_t sequence = a.seen.sequences[p.row];
        int tiled = 0;
        for (int i = 0; i < v.count; ++i) tiled = v.tiled(i) > tiled ? v.tiled(i) : tiled;
        const int last = end < tiled ? end : tiled;
        for (int tile = begin / kTile + gpu.thread(); begin < end && tile * kTile < last; tile += kThreads) {
            char* memory = a.kv.tile(a.kv.row_of(sequence, v.kv_head), tile);
            s.tiles[tile % kMostTiles] = memory;
            if (memory != nullptr) continue;
            gpu.fault(Fault::kTile, int64_t{tile} * kTile, sequence);
            good = false;
        }
        return block_sum<kThreads>(gpu, good ? 0.0f : 1.0f) == 0;
    }

    /// Begins the softmax, or continues that of the part before.
    template <class Gpu>
    TRIREME_GPU static void resume(Gpu& gpu, const Args& a, const Vectors& v, int64_t split, State& state) {
        const bool continued = Splits::first_tile(split) * kTile < a.wave.first;
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            state.max[r] = -infinity();
            state.sum[r] = 0;
            const int i = Tile::vector_of(gpu, r);
            if (!continued || i >= v.count || v.begin(i) >= a.wave.first) continue;
            const float* record = open_of(a, v, i);
            state.max[r] = record[0];
            state.sum[r] = record[1];
            TRIREME_UNROLL
            for (int g = 0; g < kGroups; ++g) {
                const int at = Tile::element_of_group(gpu, g);
                if (at >= a.kv.dim) continue;
                state.acc[g][2 * r] = record[kMaxAndSum + at] * kWeightScale;
                state.acc[g][2 * r + 1] = record[kMaxAndSum + at + 1] * kWeightScale;
            }
        }
    }
    /// Writes the records, or leaves open what the next part continues.
    template <class Gpu>
    TRIREME_GPU static void store(Gpu& gpu, const Args& a, const Vectors& v, int64_t split, const State& state) {
        const Wave wave = {a.wave.first, a.wave.end, split, 1};
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            const int i = Tile::vector_of(gpu, r);
            if (i >= v.count) continue;
            float* record = wave.open<Splits>(v.end(i)) ? open_of(a, v, i) : record_of(gpu, a, v, i);
            if (Tile::leads(gpu)) {
                record[0] = state.max[r];
                record[1] = state.sum[r];
            }
            TRIREME_UNROLL
            for (int g = 0; g < kGroups; ++g) {
                const int at = Tile::element_of_group(gpu, g);
                if (at >= a.kv.dim) continue;
                record[kMaxAndSum + at] = state.acc[g][2 * r] * (1 / kWeightScale);
                record[kMaxAndSum + at + 1] = state.acc[g][2 * r + 1] * (1 / kWeightScale);
            }
        }
    }
    TRIREME_GPU static float* open_of(const Args& a, const Vectors& v, int i) {
        return a.open + (v.head_of(i) * a.open_rows + a.seen.first_row + v.row_of(i)) * (kMaxAndSum + a.kv.dim);
    }
    template <class Gpu>
    TRIREME_GPU static float* record_of(Gpu& gpu, const Args& a, const Vectors& v, int i) {
        const int64_t at = (gpu.block_z() * a.heads + v.head_of(i)) * a.seen.rows + v.row_of(i);
        return a.records + at * (kMaxAndSum + a.kv.dim);
    }

    /// Starts the copies of a step's keys, or of its values, into a buffer: zeros for slots that no vector sees, whose
    /// contents may be NaN.
    template <bool kOfKeys, class Gpu>
    TRIREME_GPU static void copy(Gpu& gpu, const Args& a, const Vectors& v, const Shared& s, const SplitStep& step,
                                 int stop, uint16_t* buffer) {
        constexpr int kCopies = kKeys * kPieces / kThreads;
        const bool plain = step.path < 0 && step.slot >= v.least_begin() && step.slot + kKeys <= v.most_end();
        const int bytes = kOfKeys ? a.kv.k_slot : a.kv.v_slot, pieces = static_cast<int>(a.kv.dim) / 8;
        if (step.slot < stop && plain) {
            // The first piece's addresses, and constant distances: registers are short.
            constexpr int kRows = kThreads / kPieces;
            const int key = gpu.thread() / kPieces, piece = gpu.thread() % kPieces;
            const char* from = address<kOfKeys>(a, v, s, step.slot, key * bytes + piece * 16);
            uint16_t* to = buffer + key * kStride + piece * 8;
            TRIREME_UNROLL
            for (int n = 0; n * kRows < kKeys && key < kRows && piece < pieces; ++n) {
                const bool exists = kKeys % kRows == 0 || n * kRows + key < kKeys;
                if (exists) gpu.copy_async(to + n * kRows * kStride, from + n * kRows * bytes, true);
            }
        } else if (step.slot < stop) {
            const char* staged = kOfKeys ? a.kv.staged_key(v.kv_head, 0) : a.kv.staged_value(v.kv_head, 0);
            const int leaf = step.path < 0 ? 0 : v.leaf(step.path);
            const int tiled = step.path < 0 ? step.slot + kKeys : v.tiled(leaf);
            const int end = step.path < 0 ? v.most_end() : v.end(leaf);
            TRIREME_NO_UNROLL
            for (int n = 0; n < kCopies; ++n) {
                const int key = (gpu.thread() + n * kThreads) / kPieces,
                          piece = (gpu.thread() + n * kThreads) % kPieces;
                if (piece >= pieces) continue;
                const int slot = step.slot + key;
                const bool real = slot >= v.least_begin() && slot < end;
                const char* from = staged;
                if (real && slot < tiled) from = address<kOfKeys>(a, v, s, slot, piece * 16);
                if (real && slot >= tiled) from = staged + v.ancestors(leaf)[slot - tiled] * bytes + piece * 16;
                gpu.copy_async(buffer + key * kStride + piece * 8, from, real);
            }
        }
        gpu.end_copies();
    }
    /// Address `more` bytes after the key, or the value, in a slot that is in a tile. A tile is below 2 GiB.
    template <bool kOfKeys>
    TRIREME_GPU static const char* address(const Args& a, const Vectors& v, const Shared& s, int slot, int more) {
        const int first = (a.kv.by_head ? 0 : v.kv_head) * kTile, bytes = kOfKeys ? a.kv.k_slot : a.kv.v_slot;
        const int values = kOfKeys ? 0 : (a.kv.by_head ? 1 : static_cast<int>(a.kv.heads)) * kTile * a.kv.k_slot;
        return s.tiles[static_cast<unsigned>(slot) / kTile % kMostTiles] +
               (values + (first + (slot & (kTile - 1))) * bytes + more);
    }

    /// Attends the slots [begin, stop), a step at a time.
    template <class Gpu>
    TRIREME_GPU static void walk(Gpu& gpu, const Args& a, const Vectors& v, const Shared& s, int begin, int stop,
                                 State& state) {
        gpu.sync();  // the paths and tiles are there, and block_sum's sums have been read
        // Elements beyond head_dim: those of keys are multiplied by zeros of queries, and must be numbers.
        for (int i = gpu.thread(); i < 4 * kKeys; i += kThreads) {
            for (int e = static_cast<int>(a.kv.dim); e < kDim; e += 8) {
                *reinterpret_cast<Bits16*>(s.keys + i * kStride + e) = {};
            }
        }
        const SplitStep none = {stop, -1};
        SplitStep step = none, next = none, later = v.step_at(begin, kKeys, stop);
        // Two rounds without a step fill the buffers: with the first step's keys, then its values and the second's
        // keys.
        for (int round = -2; round < 0 || step.slot < stop; ++round) {
            const int own = (round & 1) * kBuffer, other = kBuffer - own;
            gpu.template wait_copies<2>();  // but this step's values and the next one's keys
            gpu.sync();                     // this step's keys are there; the values before have been used
            copy<false>(gpu, a, v, s, next, stop, s.values + other);
            const bool mine = step.slot < stop && Tile::tile_of(gpu) * 16 < v.count;
            if (mine) Tile::score(gpu, s, s.keys + own);
            gpu.template wait_copies<2>();  // but the next step's keys and values
            gpu.sync();                     // scores and values are there; the keys have been used
            copy<true>(gpu, a, v, s, later, stop, s.keys + own);
            if (step.slot < stop && a.weights.data != nullptr) report(gpu, a, v, s, step);
            if (mine) {
                const bool whole = step.path < 0 && step.slot >= v.most_begin() && step.slot + kKeys <= v.least_end();
                if (whole) {
                    Tile::template add_values<false>(gpu, v, s, step, s.values + own, state);
                } else {
                    Tile::template add_values<true>(gpu, v, s, step, s.values + own, state);
                }
            }
            step = next;
            next = later;
            if (later.slot < stop) later = v.after(later, kKeys, stop);
        }
    }

    /// Writes the step's scores where their weights will be: weigh() finishes them.
    template <class Gpu>
    TRIREME_GPU static void report(Gpu& gpu, const Args& a, const Vectors& v, const Shared& s, const SplitStep& step) {
        for (int at = gpu.thread(); at < v.count * kKeys; at += kThreads) {
            const int i = at / kKeys, slot = step.slot + at % kKeys;
            if (slot < v.end(i)) a.weights(v.head_of(i))[slot] = s.scores[i * kScoreStride + at % kKeys] * s.factors[i];
        }
    }
    /// Turns the reported scores into weights below the split's maximum, which is the top of each of its tiles.
    template <class Gpu>
    TRIREME_GPU static void weigh(Gpu& gpu, const Args& a, const Vectors& v, const Shared& s, int64_t split, int end,
                                  const State& state) {
        const auto first = static_cast<int>(Splits::first_tile(split)) * kTile;
        gpu.sync();  // all scores are written, and no factor is read any more
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            if (Tile::leads(gpu)) s.factors[Tile::vector_of(gpu, r)] = state.max[r];
        }
        gpu.sync();
        for (int i = 0; i < v.count; ++i) {
            float* weight = a.weights(v.head_of(i));
            const int stop = v.end(i) < end ? v.end(i) : end;
            for (int slot = first + gpu.thread(); slot < stop; slot += kThreads) {
                weight[slot] = slot < v.begin(i) ? 0.0f : gpu.power_of_2(weight[slot] - s.factors[i]);
            }
            for (int tile = first / kTile + gpu.thread(); tile * kTile < stop; tile += kThreads) {
                a.tops(v.head_of(i))[tile] = s.factors[i];
            }
        }
    }
};

}  // namespace trireme::gpu
