#pragma once
/// SplitVectors: the query vectors of a block of AttendSplit, what they see, and where their keys are.

#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/merge_splits.h"

namespace trireme::gpu {

/// Where keys of slots [slot, slot + keys of a step) come from. `path` -1: from tiles, for all vectors. Otherwise some
/// of the slots are staged: keys are those on path number `path`, for the vectors of that path.
struct SplitStep {
    int slot, path;
};

/// Up to kMost vectors of one KV head and one run of rows, in shared memory. Vector v of a run is head
/// `head + v % heads` of row `row + v / heads`. Slots are the head's own (Seen::shift).
///
/// Rows of a tree have different tokens in one slot. A path is the chain of ancestors of one row, which all rows on it
/// share. Each vector belongs to one path, whose steps give it all of its keys in the order of slots: so it has the
/// same bits as a row that is decoded alone, with the tokens before it in tiles.
template <int kMost, int kThreads>
struct SplitVectors {
    static constexpr int kFields = 8;
    static constexpr int64_t kBytes = (kFields * kMost + 6) * static_cast<int64_t>(sizeof(int));
    int* memory;
    const Seen& seen;
    int row, head, heads, kv_head, first, count;  // vectors [first, first + count) of the run

    TRIREME_GPU int& begin(int v) const { return memory[v]; }              // the first slot that it sees
    TRIREME_GPU int& end(int v) const { return memory[kMost + v]; }        // after the last one
    TRIREME_GPU int& tiled(int v) const { return memory[2 * kMost + v]; }  // the first slot that is not in a tile
    TRIREME_GPU int& path(int v) const { return memory[3 * kMost + v]; }
    TRIREME_GPU int& leaf(int path) const {
        return memory[4 * kMost + path];
    }  // the vector whose ancestors are the path
    TRIREME_GPU int& scratch(int v) const { return memory[5 * kMost + v]; }
    TRIREME_GPU int& row_of(int v) const { return memory[6 * kMost + v]; }
    TRIREME_GPU int& head_of(int v) const { return memory[7 * kMost + v]; }
    TRIREME_GPU int& paths() const { return memory[kFields * kMost]; }
    // Of the vectors that see something: the smallest and largest of their bounds. least_end() is 0 if some see
    // nothing.
    TRIREME_GPU int& least_begin() const { return memory[kFields * kMost + 1]; }
    TRIREME_GPU int& most_begin() const { return memory[kFields * kMost + 2]; }
    TRIREME_GPU int& least_end() const { return memory[kFields * kMost + 3]; }
    TRIREME_GPU int& most_end() const { return memory[kFields * kMost + 4]; }
    TRIREME_GPU int& least_tiled() const { return memory[kFields * kMost + 5]; }

    TRIREME_GPU const int32_t* ancestors(int v) const { return seen.ancestors(row_of(v)); }
    /// Number of staged rows that it sees.
    TRIREME_GPU int depth(int v) const { return end(v) - tiled(v); }

    /// Reads the vectors' bounds; all threads call it.
    template <class Gpu>
    TRIREME_GPU void read(Gpu& gpu) const {
        const auto shift = static_cast<int>(seen.shift(kv_head));
        for (int v = gpu.thread(); v < count; v += kThreads) {
            const int r = row + (first + v) / heads;
            row_of(v) = r;
            head_of(v) = head + (first + v) % heads;
            begin(v) = static_cast<int>(seen.begin(kv_head, r));
            end(v) = seen.slots[r] + 1 + shift;
            tiled(v) = static_cast<int>(seen.in_tiles(r)) + shift;
        }
        gpu.sync();
        constexpr int kNone = 0x7fffffff;
        int low[3] = {kNone, kNone, kNone}, high[2] = {0, 0};  // begin, end, tiled; begin, end
        for (int v = gpu.thread() % kWarp; v < count; v += kWarp) {
            if (begin(v) >= end(v)) {
                low[1] = 0;  // a step without a mask would show it keys
                continue;
            }
            low[0] = least(low[0], begin(v));
            low[1] = least(low[1], end(v));
            low[2] = least(low[2], tiled(v));
            high[0] = most(high[0], begin(v));
            high[1] = most(high[1], end(v));
        }
        for (int mask = kWarp / 2; mask > 0; mask /= 2) {
            for (int& x : low) x = least(x, gpu.shuffle_xor(x, mask));
            for (int& x : high) x = most(x, gpu.shuffle_xor(x, mask));
        }
        if (gpu.thread() == 0) {
            least_begin() = low[0];
            least_end() = low[1];
            least_tiled() = low[2];
            most_begin() = high[0];
            most_end() = high[1];
        }
        gpu.sync();
    }

    /// Assigns the vectors to paths; all threads call it, and a sync() follows.
    template <class Gpu>
    TRIREME_GPU void find_paths(Gpu& gpu) const {
        for (int v = gpu.thread(); v < count; v += kThreads) scratch(v) = deepest(v);
        gpu.sync();
        // A vector of inconsistent rows, whose leaf has another leaf, is a leaf itself.
        for (int v = gpu.thread(); v < count; v += kThreads)
            path(v) = scratch(scratch(v)) == scratch(v) ? scratch(v) : v;
        gpu.sync();
        for (int v = gpu.thread(); v < count; v += kThreads) {
            int number = 0, all = 0;
            for (int u = 0; u < count; ++u) {
                const bool is_leaf = path(u) == u;
                number += is_leaf && u < path(v) ? 1 : 0;
                all += is_leaf ? 1 : 0;
            }
            scratch(v) = number;
            if (path(v) == v) leaf(number) = v;
            if (v == 0) paths() = all;
        }
        gpu.sync();
        for (int v = gpu.thread(); v < count; v += kThreads) path(v) = scratch(v);
    }

    /// The first step over the slots [slot, slot + keys); a walk ends at `stop`.
    TRIREME_GPU SplitStep step_at(int slot, int keys, int stop) const {
        if (slot >= stop || slot + keys <= least_tiled() || stop <= least_tiled()) return {slot, -1};
        return {slot, next_path(slot, 0)};
    }
    /// The step after `step`: the next path over the same slots, or the first step over the next slots.
    TRIREME_GPU SplitStep after(const SplitStep& step, int keys, int stop) const {
        if (step.path < 0) {
            if (step.slot + 2 * keys <= least_tiled()) return {step.slot + keys, -1};
        } else {
            const int path = next_path(step.slot, step.path + 1);
            if (path < paths()) return {step.slot, path};
        }
        return step_at(step.slot + keys, keys, stop);
    }

    /// Whether a step shows vector v some key.
    TRIREME_GPU bool takes(int v, const SplitStep& step) const {
        return v < count && (step.path < 0 || path(v) == step.path);
    }

  private:
    TRIREME_GPU static int least(int a, int b) { return a < b ? a : b; }
    TRIREME_GPU static int most(int a, int b) { return a > b ? a : b; }

    TRIREME_GPU int next_path(int slot, int from) const {
        while (from < paths() && end(leaf(from)) <= slot) ++from;
        return from;
    }

    /// The first of the vectors with the most ancestors, among those whose ancestors begin with those of v.
    TRIREME_GPU int deepest(int v) const {
        const int own = depth(v);
        int best = v;
        for (int u = 0; u < count; ++u) {
            if (tiled(u) != tiled(v) || depth(u) < depth(best) || (depth(u) == depth(best) && u >= best)) continue;
            if (own <= 0 || ancestors(u)[own - 1] == ancestors(v)[own - 1]) best = u;
        }
        for (int i = 0; i < own; ++i) {
            if (ancestors(best)[i] != ancestors(v)[i]) return v;
        }
        return best;
    }
};

}  // namespace trireme::gpu
