#pragma once
/// Attention that the next tokens are expected to give to each slot (Kernels::expected_weights), in f32: exponents of
/// all slots first, then their softmax.

#include "kernels/cuda/key_weights.h"
#include "kernels/slot_rule.h"

namespace trireme::gpu {

/// Exponents of Expected Attention. Grid: blocks of kKeys slots, query heads. A block walks all rows, kRows at a time.
/// Rows after the first are scored by their difference from it, so that squares do not cancel.
template <class T>
struct ExpectedExponents : KeyScores<T> {
    using Scores = KeyScores<T>;
    using Scores::kEach, Scores::kKeys, Scores::kRows, Scores::kSide, Scores::kStep, Scores::kThreads,
        Scores::kSharedBytes;
    static_assert(2 * kSide + 1 <= 2 * kStep, "two sums per thread and slot, and a score per slot, replace the keys");
    struct Args {
        Kv kv;
        Rows<const float> q;
        Rows<float> weights;  // [head][slot]
        const int32_t *kv_of_head, *begins;
        int64_t rows, slots;
        float scale;  // of scores
        Angles angles;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_y(), kv_head = a.kv_of_head[head];
        const typename Scores::Keys k = {int64_t{gpu.block_x()} * kKeys, a.begins == nullptr ? 0 : a.begins[kv_head],
                                         a.slots - 1, kv_head, a.kv.tile(0, int64_t{gpu.block_x()} * kKeys / kTile)};
        if (k.begin < 0 || k.begin > k.last) return gpu.fault(Fault::kSlots, k.begin, a.slots);
        if (k.slot + kKeys <= k.begin) return;
        if (k.tile == nullptr) return gpu.fault(Fault::kTile, k.slot, 0);
        const int down = gpu.thread() / kSide * kEach;
        float sum[kEach] = {}, square[kEach] = {}, base[kEach] = {};
        for (int64_t first = 0; first < a.rows; first += kRows) {
            float score[kEach][kEach] = {};
            Scores::multiply(gpu, a.kv, a.angles, k, score, [&](int row, int element, float(&x)[8]) {
                load_difference(a, head, first + row, element, x);
            });
            for (int i = 0; i < kEach; ++i) {
                const int64_t row = first + down + i;
                for (int j = 0; j < kEach && row < a.rows; ++j) {
                    const float s = score[i][j];
                    if (row == 0) {
                        base[j] = s;
                    } else {
                        sum[j] += s;
                        square[j] = fmaf(s, s, square[j]);
                    }
                }
            }
        }
        auto* shared = static_cast<float*>(gpu.shared());
        const float share = 1.0f / static_cast<float>(a.rows);
        const float mean = Scores::total(gpu, shared, sum) * share;
        const float squares = Scores::total(gpu, shared + kSide * kKeys, square) * share;
        const float of_first = Scores::total(gpu, shared, base);  // the others have zeros
        const int64_t slot = k.slot + gpu.thread();
        if (gpu.thread() >= kKeys || slot < k.begin || slot > k.last) return;
        a.weights(head)[slot] = expected_exponent(of_first, mean, squares);
    }

  private:
    /// Loads eight elements of a row's query minus the first row's; of the first row itself.
    TRIREME_GPU static void load_difference(const Args& a, int64_t head, int64_t row, int element, float (&x)[8]) {
        const bool used = row < a.rows && element < a.kv.dim;
        const int64_t at = head * a.kv.dim + element;
        const float *from = used ? a.q(row) + at : nullptr, *base = used && row > 0 ? a.q(0) + at : nullptr;
        for (int i = 0; i < 8; ++i) x[i] = used ? (from[i] - (base == nullptr ? 0.0f : base[i])) * a.scale : 0.0f;
    }
};

/// Softmax of a query head's exponents, times the norms of the values. Grid: query heads. Threads stride over slots.
struct ExpectedWeights {
    static constexpr int kThreads = 256, kWarps = kThreads / kWarp;
    static_assert(kThreads % kWarp == 0);
    static constexpr int64_t kSharedBytes = 2 * kWarps * sizeof(float);
    struct Args {
        Kv kv;
        Rows<float> weights;  // [head][slot]: exponents, in powers of 2
        const int32_t *kv_of_head, *begins;
        int64_t slots;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t head = gpu.block_x(), kv_head = a.kv_of_head[head];
        const int64_t begin = a.begins == nullptr ? 0 : a.begins[kv_head];
        if (begin < 0 || begin >= a.slots) return gpu.fault(Fault::kSlots, begin, a.slots);
        float* w = a.weights(head);
        auto* tops = static_cast<float*>(gpu.shared());
        float* sums = tops + kWarps;
        for (int64_t i = gpu.thread(); i < begin; i += kThreads) w[i] = 0;
        float top = w[begin];
        for (int64_t i = begin + gpu.thread(); i < a.slots; i += kThreads) top = fmaxf(top, w[i]);
        for (int mask = kWarp / 2; mask > 0; mask /= 2) top = fmaxf(top, gpu.shuffle_xor(top, mask));
        if (gpu.thread() % kWarp == 0) tops[gpu.thread() / kWarp] = top;
        gpu.sync();
        for (int i = 0; i < kWarps; ++i) top = fmaxf(top, tops[i]);
        float sum = 0;
        for (int64_t i = begin + gpu.thread(); i < a.slots; i += kThreads) sum += w[i] = exp2f(w[i] - top);
        for (int mask = kWarp / 2; mask > 0; mask /= 2) sum += gpu.shuffle_xor(sum, mask);
        if (gpu.thread() % kWarp == 0) sums[gpu.thread() / kWarp] = sum;
        gpu.sync();
        sum = 0;
        for (int i = 0; i < kWarps; ++i) sum += sums[i];
        const float share = 1.0f / sum;
        for (int64_t i = begin + gpu.thread(); i < a.slots; i += kThreads) {
            char* tile = a.kv.tile(0, i / kTile);
            if (tile == nullptr) return gpu.fault(Fault::kTile, i, 0);
            w[i] *= share * norm(a.kv, a.kv.value(tile, kv_head, i % kTile));
        }
    }

  private:
    TRIREME_GPU static float norm(const Kv& kv, const char* value) {
        float square = 0;
        for (int64_t e = 0; e < kv.dim; ++e) {
            const float x = element_of(kv.v_type, value, kv.dim, e);
            square = fmaf(x, x, square);
        }
        return sqrtf(square);
    }
};

}  // namespace trireme::gpu
