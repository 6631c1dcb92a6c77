#pragma once
/// Attention weights per key of a prefill, in f32.

#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/rotate.h"

namespace trireme::gpu {

/// Scores of 64 query vectors against 64 keys of a head. A thread has the scores of kEach vectors and kEach keys in
/// registers; the elements come through shared memory.
template <class T>
struct KeyScores {
    static constexpr int kThreads = 256, kSide = 16, kEach = 4;
    static constexpr int kKeys = kSide * kEach, kRows = kSide * kEach;
    static constexpr int kStep = 32;  // elements of keys and queries in shared memory at once
    static_assert(kKeys * kStep == kThreads * 8 && kRows * kStep == kThreads * 8, "a thread brings 8 elements of each");
    static_assert(kSide * kSide == kThreads && kEach * sizeof(float) == sizeof(Bits16), "a thread has kEach by kEach");
    static_assert(kKeys == kRows && kThreads % kKeys == 0, "a thread brings a key and the row of the same number");
    static_assert(kTile % kKeys == 0, "a block's slots are in one tile");
    static_assert(kSide <= kStep, "the sums of kSide threads per slot replace the keys in shared memory");
    static constexpr int64_t kSharedBytes = int64_t{kKeys + kRows} * kStep * sizeof(float);

    /// A block's slots, of which [begin, last] are seen.
    struct Keys {
        int64_t slot, begin, last, head;
        char* tile;
    };

    /// score = q k^T: elements in order, kStep of them at a time. query(row, element, x) loads eight elements of a
    /// query vector, zeros beyond the last.
    template <class Gpu, class Query>
    TRIREME_GPU static void multiply(Gpu& gpu, const Kv& kv, const Angles& angles, const Keys& k,
                                     float (&score)[kEach][kEach], const Query& query) {
        float* keys = static_cast<float*>(gpu.shared());  // [element][slot]
        float* queries = keys + kStep * kKeys;            // [element][row]
        const int across = gpu.thread() % kSide * kEach, down = gpu.thread() / kSide * kEach;
        const auto dim = static_cast<int>(kv.dim);
        for (int step = 0; step < dim; step += kStep) {
            gpu.sync();  // the elements before have been used
            const int mine = gpu.thread() % kKeys, part = gpu.thread() / kKeys * 8;
            float x[8];
            load_key(gpu, kv, angles, k, mine, step + part, x);
            for (int i = 0; i < 8; ++i) keys[(part + i) * kKeys + mine] = x[i];
            query(mine, step + part, x);
            for (int i = 0; i < 8; ++i) queries[(part + i) * kRows + mine] = x[i];
            gpu.sync();
            for (int e = 0; e < kStep && step + e < dim; ++e) {
                const Bits16 key = *reinterpret_cast<const Bits16*>(keys + e * kKeys + across);
                const Bits16 row = *reinterpret_cast<const Bits16*>(queries + e * kRows + down);
                TRIREME_UNROLL
                for (int i = 0; i < kEach; ++i) {
                    TRIREME_UNROLL
                    for (int j = 0; j < kEach; ++j) {
                        score[i][j] = fmaf(float_of(row.word[i]), float_of(key.word[j]), score[i][j]);
                    }
                }
            }
        }
    }
    /// The sum over the threads that share a slot, in order, for thread `thread` < kKeys and its slot. Every thread has
    /// the sums of its kEach slots. `sums`: shared memory for [kSide][slot].
    template <class Gpu>
    TRIREME_GPU static float total(Gpu& gpu, float* sums, const float (&sum)[kEach]) {
        gpu.sync();  // all threads have used what was there
        for (int j = 0; j < kEach; ++j) sums[gpu.thread() / kSide * kKeys + gpu.thread() % kSide * kEach + j] = sum[j];
        gpu.sync();
        float all = 0;
        for (int t = 0; t < kSide; ++t) all += sums[t * kKeys + gpu.thread() % kKeys];
        return all;
    }

  private:
    /// Loads eight elements of a key, rotated by its slot; zeros for slots that are not seen, and beyond head_dim.
    template <class Gpu>
    TRIREME_GPU static void load_key(Gpu& gpu, const Kv& kv, const Angles& angles, const Keys& k, int key, int element,
                                     float (&x)[8]) {
        const int64_t slot = k.slot + key;
        const auto dim = static_cast<int>(kv.dim);
        Vec8<T> bits = {};
        const bool seen = slot >= k.begin && slot <= k.last && element < dim;
        const char* at = kv.key(k.tile, k.head, slot % kTile);
        if (seen) bits.load(gpu, at, dim, element, kv.k_type);
        bits.widen_to(x, kv.k_type);
        if (seen && angles.table.data != nullptr) {
            rotate_eight<T>(gpu, at, angles.table(slot), element, dim, kv.k_type, x);
        }
    }
};

/// Grid: blocks of kKeys slots, query heads. A block owns the sums of its slots, so that nothing is added atomically.
/// It walks the rows that see its slots, kRows at a time. A thread adds its rows in order; the threads of a slot are
/// added at the end, in order.
template <class T>
struct KeyWeights : KeyScores<T> {
    using Scores = KeyScores<T>;
    using Scores::kEach, Scores::kKeys, Scores::kRows, Scores::kSide, Scores::kThreads, Scores::kSharedBytes;
    struct Args {
        Kv kv;
        Seen seen;
        Rows<const float> q, totals;  // totals [row][head]: maximum and sum, as attention reported them
        Rows<float> sums;             // [head][slot]
        const int32_t* kv_of_head;
        int64_t max_slots;
        float scale;  // of scores, log2(e) included
        Angles angles;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_y(), kv_head = a.kv_of_head[head], rows = a.seen.rows;
        const int64_t last = a.seen.slots[rows - 1], wanted = a.seen.slots[0] + rows - 1;
        if (last != wanted || last < -1 || last >= a.max_slots) return gpu.fault(Fault::kRowOrder, last, wanted);
        const typename Scores::Keys k = {int64_t{gpu.block_x()} * kKeys, a.seen.begin(kv_head), last, kv_head,
                                         a.kv.tile(a.seen.sequences[0], int64_t{gpu.block_x()} * kKeys / kTile)};
        if (k.slot > last || k.slot + kKeys <= k.begin) return;
        if (k.tile == nullptr) return gpu.fault(Fault::kTile, k.slot, a.seen.sequences[0]);
        if (a.angles.table.data != nullptr && last >= a.angles.positions) {
            return gpu.fault(Fault::kPosition, last, a.angles.positions);
        }
        const int across = gpu.thread() % kSide * kEach, down = gpu.thread() / kSide * kEach;
        float sum[kEach] = {};
        for (int64_t first = 0; first < rows; first += kRows) {
            if (a.seen.slots[min_of(first + kRows, rows) - 1] < k.slot) continue;  // these rows end before the slots
            float score[kEach][kEach] = {};
            Scores::multiply(gpu, a.kv, a.angles, k, score,
                             [&](int row, int element, float(&x)[8]) { load_query(a, head, first + row, element, x); });
            for (int i = 0; i < kEach; ++i) {
                const int64_t row = first + down + i;
                if (row >= rows) continue;
                const float top = a.totals(row)[2 * head], share = 1.0f / a.totals(row)[2 * head + 1];
                for (int j = 0; j < kEach; ++j) {
                    if (k.slot + across + j <= a.seen.slots[row]) sum[j] += exp2f(score[i][j] - top) * share;
                }
            }
        }
        const float total = Scores::total(gpu, static_cast<float*>(gpu.shared()), sum);
        const int64_t slot = k.slot + gpu.thread();
        if (gpu.thread() < kKeys && slot >= k.begin && slot <= k.last) a.sums(head)[slot] += total;
    }

  private:
    TRIREME_GPU static void load_query(const Args& a, int64_t head, int64_t row, int element, float (&x)[8]) {
        const bool used = row < a.seen.rows && element < a.kv.dim;
        const float* from = used ? a.q(row) + head * a.kv.dim + element : nullptr;
        for (int i = 0; i < 8; ++i) x[i] = used ? from[i] * a.scale : 0;
    }
};

}  // namespace trireme::gpu
