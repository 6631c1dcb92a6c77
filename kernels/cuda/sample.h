#pragma once
/// Sampling on a GPU: a row of logits to a token by kernels/sampling.h, a block a row.

#include "kernels/cuda/fault.h"
#include "kernels/sampling.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Tokens are told apart and ordered by keys: the logit's bits so that a larger logit is a larger number, then the id
/// so that a lower one is. "The first token" has the largest key. A threshold is found two bits at a time: which
/// quarter of the keys holds it is told by sums of whole numbers, whose order does not matter. Nothing is sorted.
struct Sample {
    static constexpr int kThreads = 512, kWarps = kThreads / kWarp;
    static constexpr int64_t kListed = 2048;  // tokens that top-k leaves over fit the list in shared memory
    static constexpr int64_t kSharedBytes = kListed * 8 + 4 * kWarps * 8 + 16;
    struct Args {
        const float* logits;  // [parts, rows, cols]: id = part * cols + column
        int64_t rows, cols, vocab;
        const int64_t* uniforms;
        int32_t* ids;
        SamplingRule rule;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        Row<Gpu> row{gpu, a, static_cast<uint64_t*>(gpu.shared())};
        const uint64_t top = row.largest();
        if (top == kNotANumber || !(logit_of(top) < infinity() && logit_of(top) > -infinity())) {
            if (gpu.thread() == 0) gpu.fault(Fault::kLogits, gpu.block_x(), 0);
            return;
        }
        uint64_t drawn = top;
        if (a.rule.scale != 0) {
            row.top = logit_of(top);
            drawn = row.draw();
        }
        if (gpu.thread() == 0) a.ids[gpu.block_x()] = static_cast<int32_t>(~static_cast<uint32_t>(drawn));
    }

  private:
    static constexpr uint64_t kNotANumber = ~uint64_t{0};

    TRIREME_GPU static uint64_t key_of(float logit, int64_t id) {
        if (!(logit == logit)) return kNotANumber;
        const uint32_t bits = bits_of(logit + 0.0f);  // -0 is 0
        const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
        return static_cast<uint64_t>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
    }
    TRIREME_GPU static float logit_of(uint64_t key) {
        const auto order = static_cast<uint32_t>(key >> 32);
        return float_of(order >> 31 ? order & 0x7fffffffu : ~order);
    }
    /// What all threads of the block know alike.
    template <class Gpu>
    struct Row {
        Gpu& gpu;
        const Args& a;
        uint64_t* shared;
        float top = 0;
        uint64_t floor = 0;   // keys below are out
        uint64_t least = 0;   // and weights below
        int64_t listed = -1;  // tokens in the list; -1: all are read from the logits

        TRIREME_GPU uint64_t* sums() const { return shared + kListed; }
        TRIREME_GPU int64_t size() const { return listed >= 0 ? listed : a.vocab; }
        TRIREME_GPU uint64_t key(int64_t i) const {
            if (listed >= 0) return shared[i];
            return key_of(a.logits[(i / a.cols * a.rows + gpu.block_x()) * a.cols + i % a.cols], i);
        }
        TRIREME_GPU uint64_t weight(uint64_t key) const {
            const float below = logit_of(key) - top;  // an infinite scale must not meet 0
            const auto w =
                static_cast<uint64_t>(exp2f(below == 0 ? 0 : below * a.rule.scale) * SamplingRule::kFirstWeight);
            return w < least ? 0 : w;
        }

        TRIREME_GPU uint64_t largest() {
            uint64_t most = 0;
            for (int64_t i = gpu.thread(); i < a.vocab; i += kThreads) {
                const uint64_t k = key(i);
                if (k > most) most = k;
            }
            for (int mask = kWarp / 2; mask > 0; mask /= 2) {
                const uint64_t other = gpu.shuffle_xor(most, mask);
                if (other > most) most = other;
            }
            if (gpu.thread() % kWarp == 0) sums()[gpu.thread() / kWarp] = most;
            gpu.sync();
            for (int w = 0; w < kWarps; ++w) {
                if (sums()[w] > most) most = sums()[w];
            }
            gpu.sync();
            return most;
        }

        /// How much the keys from `floor` on weigh, or how many they are.
        TRIREME_GPU uint64_t total(bool counted) {
            uint64_t quarter[4];
            quarters(0, 64, counted, quarter);
            return quarter[0] + quarter[1] + quarter[2] + quarter[3];
        }
        /// The same by quarters: of the keys whose bits from `high` on are prefix's, by the two bits below.
        TRIREME_GPU void quarters(uint64_t prefix, int high, bool counted, uint64_t (&quarter)[4]) {
            uint64_t mine[4] = {0, 0, 0, 0};
            for (int64_t i = gpu.thread(); i < size(); i += kThreads) {
                const uint64_t k = key(i);
                if (k < floor || (high < 64 && k >> high != prefix >> high)) continue;
                const uint64_t w = counted ? 1 : weight(k);
                const auto digit = static_cast<int>(k >> (high - 2) & 3);
                TRIREME_UNROLL
                for (int d = 0; d < 4; ++d) mine[d] += d == digit ? w : 0;
            }
            TRIREME_UNROLL
            for (int d = 0; d < 4; ++d) {
                for (int mask = kWarp / 2; mask > 0; mask /= 2) mine[d] += gpu.shuffle_xor(mine[d], mask);
                if (gpu.thread() % kWarp == 0) sums()[d * kWarps + gpu.thread() / kWarp] = mine[d];
            }
            gpu.sync();
            TRIREME_UNROLL
            for (int d = 0; d < 4; ++d) {
                quarter[d] = 0;
                for (int w = 0; w < kWarps; ++w) quarter[d] += sums()[d * kWarps + w];
            }
            gpu.sync();
        }
        /// The first key at which the running sum exceeds `t`, which is below the total.
        TRIREME_GPU uint64_t select(uint64_t t, bool counted) {
            uint64_t prefix = 0;
            for (int high = 64; high > 0; high -= 2) {
                uint64_t quarter[4];
                quarters(prefix, high, counted, quarter);
                int digit = 3;
                for (; digit > 0 && t >= quarter[digit]; --digit) t -= quarter[digit];
                prefix |= static_cast<uint64_t>(digit) << (high - 2);
            }
            return prefix;
        }
        /// From here on only the keys from `floor` on are looked at, in the list.
        TRIREME_GPU void list(int64_t n) {
            auto* next = reinterpret_cast<uint32_t*>(sums() + 4 * kWarps);
            if (gpu.thread() == 0) *next = 0;
            gpu.sync();
            for (int64_t i = gpu.thread(); i < a.vocab; i += kThreads) {
                const uint64_t k = key(i);
                if (k >= floor) shared[gpu.fetch_add(next, 1)] = k;  // in any order
            }
            gpu.sync();
            listed = n;
        }

        TRIREME_GPU uint64_t draw() {
            floor = (static_cast<uint64_t>(key_of(-infinity(), 0) >> 32) + 1) << 32;
            const auto k = static_cast<uint64_t>(a.rule.top_k);
            const uint64_t finite = total(/*counted=*/true);
            const uint64_t kept = k > 0 && k < finite ? k : finite;
            if (kept < finite) floor = select(k - 1, /*counted=*/true);
            if (kept <= static_cast<uint64_t>(kListed)) list(static_cast<int64_t>(kept));
            if (a.rule.top_p < SamplingRule::kOne) {
                const uint64_t reach = part_of(total(false), a.rule.top_p, /*up=*/true);
                floor = select(reach > 0 ? reach - 1 : 0, false);
            }
            least = a.rule.min_weight;
            const auto u = static_cast<uint64_t>(a.uniforms[gpu.block_x()]);
            return select(part_of(total(false), u, /*up=*/false), false);
        }
    };
};

}  // namespace trireme::gpu
