#pragma once
/// Sampling on a GPU: a row of logits to a token, or to siblings, by kernels/sampling.h, a block a row.

#include "kernels/cuda/fault.h"
#include "kernels/law.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Tokens are told apart and ordered by keys: the logit's bits so that a larger logit is a larger number, then the id
/// so that a lower one is. "The first token" has the largest key. A threshold is found by digits of 8 bits: which of
/// 256 ranges of keys holds it is told by sums of whole numbers, whose order does not matter. Nothing is sorted.
struct Sample {
    static constexpr int kThreads = 512, kWarps = kThreads / kWarp;
    static constexpr int kAhead = 4;      // logits of a thread that are on their way at once
    static constexpr int kListed = 2048;  // tokens that top-k leaves over fit the list in shared memory
    static constexpr int kBits = 8, kDigits = 1 << kBits, kGroup = 16, kGroups = kDigits / kGroup;
    static constexpr int kCopies = 8;  // of a digit's sum: lanes that add to the same one wait for each other
    static constexpr int kSiblings = 64;
    struct Shared {
        uint64_t list[kListed];
        uint64_t sums[kDigits], groups[kGroups];
        uint32_t low[kDigits * kCopies], high[kDigits];  // words of sums under way
        uint64_t elders[kSiblings];
        uint32_t next;
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        const float* logits;  // [parts, rows or more, cols]: id = part * cols + column
        int64_t rows, cols, vocab;
        const int64_t* uniforms;
        const int32_t* ends;  // of each row's uniforms and ids; null: a row has one
        int32_t* ids;         // null: nothing is drawn
        RowLaw* laws;         // null: nobody asks
        SamplingRule rule;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        Row<Gpu> row{gpu, a, *static_cast<Shared*>(gpu.shared())};
        const uint64_t top = row.largest();
        if (top == kNotANumber || !(logit_of(top) < infinity() && logit_of(top) > -infinity())) {
            if (gpu.thread() == 0) gpu.fault(Fault::kLogits, gpu.block_x(), 0);
            return;
        }
        row.top = logit_of(top);
        const int64_t r = gpu.block_x();
        row.next = a.ends == nullptr ? r : r > 0 ? a.ends[r - 1] : 0;
        row.end = a.ends == nullptr ? r + (a.ids != nullptr ? 1 : 0) : a.ends[r];
        RowLaw law{.floor = top, .sum = static_cast<uint64_t>(SamplingRule::kFirstWeight), .top = row.top};
        if (a.rule.scale == 0) {
            row.take_largest(top);
        } else {
            row.filter();
            row.draw(law.sum);
            law.floor = row.floor, law.least = row.least, law.scale = a.rule.scale;
        }
        if (a.laws != nullptr && gpu.thread() == 0) a.laws[r] = law;
    }

  private:
    static constexpr uint64_t kNotANumber = ~uint64_t{0};

    TRIREME_GPU static uint64_t key_of(float logit, int64_t id) {
        return logit == logit ? order_key(logit, id) : kNotANumber;
    }
    TRIREME_GPU static float logit_of(uint64_t key) { return logit_of_key(key); }
    /// What all threads of the block know alike.
    template <class Gpu>
    struct Row {
        Gpu& gpu;
        const Args& a;
        Shared& shared;
        float top = 0;
        uint64_t floor = 0;         // keys below are out
        uint64_t least = 0;         // and weights below
        int listed = -1;            // tokens in the list; -1: all are read from the logits
        int64_t next = 0, end = 0;  // of the row's uniforms and ids
        int elders = 0;             // drawn of the row so far: keys in shared.elders

        /// visit(key) by this thread for its tokens: together the block's threads have all of them.
        template <class Visit>
        TRIREME_GPU void each(const Visit& visit) const {
            for (int i = gpu.thread(); i < listed; i += kThreads) visit(shared.list[i]);
            if (listed >= 0) return;
            const float* logits = a.logits + gpu.block_x() * a.cols;
            for (int64_t id = 0; id < a.vocab; id += a.cols, logits += a.rows * a.cols) {
                const auto here = static_cast<int>(min_of(a.cols, a.vocab - id));
                for (int first = gpu.thread(); first < here; first += kAhead * kThreads) {
                    float logit[kAhead];
                    TRIREME_UNROLL
                    for (int i = 0; i < kAhead; ++i) {
                        const int column = first + i * kThreads;
                        logit[i] = column < here ? logits[column] : -infinity();
                    }
                    TRIREME_UNROLL
                    for (int i = 0; i < kAhead; ++i) {
                        const int column = first + i * kThreads;
                        if (column < here) visit(key_of(logit[i], id + column));
                    }
                }
            }
        }
        TRIREME_GPU uint64_t weight(uint64_t key) const {
            const uint64_t w = weight_of(logit_of(key), top, a.rule.scale);
            return w < least ? 0 : w;
        }

        TRIREME_GPU uint64_t largest() {
            uint64_t most = 0;
            each([&](uint64_t k) {
                if (k > most) most = k;
            });
            for (int mask = kWarp / 2; mask > 0; mask /= 2) {
                const uint64_t other = gpu.shuffle_xor(most, mask);
                if (other > most) most = other;
            }
            if (gpu.thread() % kWarp == 0) shared.sums[gpu.thread() / kWarp] = most;
            gpu.sync();
            for (int w = 0; w < kWarps; ++w) {
                if (shared.sums[w] > most) most = shared.sums[w];
            }
            return most;
        }

        /// Into shared.sums, for each digit at `shift`, how much those keys weigh, or how many they are, which begin as
        /// prefix does; sums of kGroup digits into shared.groups.
        TRIREME_GPU void add_up(uint64_t prefix, int shift, bool counted) {
            const int thread = gpu.thread();
            for (int i = thread; i < kDigits * kCopies; i += kThreads) shared.low[i] = 0;
            if (thread < kDigits) shared.high[thread] = 0;
            gpu.sync();
            each([&](uint64_t k) {
                if (k < floor || (k ^ prefix) >> shift >> kBits != 0) return;
                const uint64_t w = counted ? 1 : weight(k);
                const auto digit = static_cast<int>(k >> shift & (kDigits - 1));
                const auto low = static_cast<uint32_t>(w);
                auto high = static_cast<uint32_t>(w >> 32);
                // Adding in 32 bits takes one instruction; who overflows carries.
                if (low != 0 && gpu.fetch_add(&shared.low[digit * kCopies + thread % kCopies], low) > ~low) ++high;
                if (high != 0) gpu.fetch_add(&shared.high[digit], high);
            });
            gpu.sync();
            if (thread < kDigits) {
                uint64_t sum = static_cast<uint64_t>(shared.high[thread]) << 32;
                for (int i = 0; i < kCopies; ++i) sum += shared.low[thread * kCopies + i];
                for (int e = 0; e < elders; ++e) {
                    const uint64_t k = shared.elders[e];
                    if ((k ^ prefix) >> shift >> kBits == 0 && static_cast<int>(k >> shift & (kDigits - 1)) == thread) {
                        sum -= counted ? 1 : weight(k);
                    }
                }
                shared.sums[thread] = sum;
            }
            gpu.sync();
            if (thread < kGroups) {
                uint64_t sum = 0;
                for (int i = 0; i < kGroup; ++i) sum += shared.sums[thread * kGroup + i];
                shared.groups[thread] = sum;
            }
            gpu.sync();
        }
        /// The digit in whose sum `t` lies when the larger ones come first; they are taken from t.
        TRIREME_GPU int digit_of(uint64_t& t) const {
            int group = kGroups - 1;
            for (; group > 0 && t >= shared.groups[group]; --group) t -= shared.groups[group];
            int digit = group * kGroup + kGroup - 1;
            for (; digit > 0 && t >= shared.sums[digit]; --digit) t -= shared.sums[digit];
            return digit;
        }
        /// `found` becomes the first key at which the running sum exceeds threshold(total); it stays where none does.
        template <class Threshold>
        TRIREME_GPU void select(bool counted, const Threshold& threshold, uint64_t& found) {
            uint64_t prefix = 0, t = 0;
            for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
                uint64_t digit = kDigits - 1;
                if (shift >= 32 ||
                    (a.vocab - 1) >> shift > 0) {  // else ids end in front of it: their complements are ones
                    add_up(prefix, shift, counted);
                    if (shift == 64 - kBits) {
                        uint64_t total = 0;
                        for (int g = 0; g < kGroups; ++g) total += shared.groups[g];
                        t = threshold(total);
                        if (t >= total) return;
                    }
                    digit = static_cast<uint64_t>(digit_of(t));
                }
                prefix |= digit << shift;
            }
            found = prefix;
        }
        /// From here on only the keys from `floor` on are looked at, in the list.
        TRIREME_GPU void list() {
            if (gpu.thread() == 0) shared.next = 0;
            gpu.sync();
            each([&](uint64_t k) {
                if (k >= floor) shared.list[gpu.fetch_add(&shared.next, 1)] = k;  // in any order
            });
            gpu.sync();
            listed = static_cast<int>(shared.next);
        }

        TRIREME_GPU void filter() {
            floor = kLowestKey;
            const auto k = static_cast<uint64_t>(a.rule.top_k);
            if (k > 0)
                select(
                    true, [&](uint64_t) { return k - 1; }, floor);
            if (min_of(k > 0 ? a.rule.top_k : a.vocab, a.vocab) <= kListed) list();
            if (a.rule.top_p < SamplingRule::kOne) {
                const auto last = [&](uint64_t total) {
                    const uint64_t reach = part_of(total, a.rule.top_p, /*up=*/true);
                    return reach > 0 ? reach - 1 : 0;
                };
                select(false, last, floor);
            }
            least = a.rule.min_weight;
        }
        /// The row's next token; 0: there is none.
        TRIREME_GPU void take(uint64_t key) {
            if (gpu.thread() == 0) {
                a.ids[next] = key == 0 ? -1 : static_cast<int32_t>(~static_cast<uint32_t>(key));
                if (key != 0) shared.elders[elders] = key;
            }
            if (key != 0) ++elders;
            ++next;
        }
        /// What elders weigh is left out of every sum (add_up). `sum`: of the weights that the filters leave.
        TRIREME_GPU void draw(uint64_t& sum) {
            bool first = true;
            do {
                uint64_t drawn = 0;
                const auto reach = [&](uint64_t total) {
                    if (first) sum = total;
                    if (next == end) return total;  // which no sum exceeds
                    return part_of(total, static_cast<uint64_t>(a.uniforms[next]), /*up=*/false);
                };
                select(false, reach, drawn);
                if (next < end) take(drawn);
                first = false;
            } while (next < end);
        }
        TRIREME_GPU void take_largest(uint64_t largest) {
            if (next < end) take(largest);
            if (next == end) return;
            // Of as many as are wanted, the first that is no elder.
            const auto most = static_cast<uint64_t>(end - next);
            floor = kLowestKey;
            select(
                true, [&](uint64_t) { return most - 1; }, floor);
            list();
            while (next < end) {
                uint64_t taken = 0;
                select(
                    true, [](uint64_t) { return uint64_t{0}; }, taken);
                take(taken);
            }
        }
    };
};

}  // namespace trireme::gpu
