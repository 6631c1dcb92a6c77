#pragma once
/// Sampling on a GPU: a block draws a token, or siblings, from a row of logits (kernels/sampling.h).

#include "kernels/cuda/fault.h"
#include "kernels/distribution.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Grid: rows of logits. A block draws all tokens of a row, because each selection needs sums over the whole row. Its
/// threads stride over the row and add integers in shared memory, in any order; then all threads decide alike.
///
/// Tokens are identified and ordered by keys: the bits of the logit, such that a larger logit is a larger number, then
/// of the id, such that a lower one is. "The first token" has the largest key. A threshold is found by digits of 8
/// bits: sums of integers, in any order, show which of 256 ranges of keys holds it. Nothing is sorted.
struct Sample {
    static constexpr int kThreads = 512, kWarps = kThreads / kWarp;
    static constexpr int kAhead = 4;      // logits that a thread has in flight at once
    static constexpr int kListed = 2048;  // most tokens that the list in shared memory holds
    static constexpr int kBits = 8, kDigits = 1 << kBits, kGroup = 16, kGroups = kDigits / kGroup;
    static constexpr int kCopies = 8;  // copies of a digit's sum: lanes that add to the same one wait for each other
    static constexpr int kSiblings = 64;
    /// add_up() passes two barriers before it writes sums and groups, so readers of its results need no barrier of
    /// their own. largest() writes sums without one: it comes first. Between two calls of list() there is an add_up().
    struct Shared {
        uint64_t list[kListed];
        uint64_t sums[kDigits], groups[kGroups];
        uint32_t low[kDigits * kCopies], high[kDigits];  // words of sums in progress
        uint64_t elders[kSiblings];
        uint32_t next;
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    static_assert(64 % kBits == 0 && 32 % kBits == 0, "digits divide a key, and none has bits of both logit and id");
    static_assert(kDigits <= kThreads && kDigits % kGroup == 0, "a thread finishes the sum of a digit");
    static_assert(kThreads % kWarp == 0 && kWarps <= kDigits, "a warp's largest key is stored among the sums");
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        const float* logits;  // [parts, rows or more, cols]: id = part * cols + column
        int64_t rows, cols, vocab;
        const int64_t* uniforms;
        const int32_t* ends;             // ends of each row's uniforms and ids; null: a row has one
        int32_t* ids;                    // null: nothing is drawn
        RowDistribution* distributions;  // null: not requested
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
        RowDistribution distribution{
            .floor = top, .sum = static_cast<uint64_t>(SamplingRule::kFirstWeight), .top = row.top};
        if (a.rule.scale == 0) {
            row.take_largest(top);
        } else {
            row.filter();
            row.draw(distribution.sum);
            distribution.floor = row.floor, distribution.least = row.least, distribution.scale = a.rule.scale;
        }
        if (a.distributions != nullptr && gpu.thread() == 0) a.distributions[r] = distribution;
    }

  private:
    static constexpr uint64_t kNotANumber = ~uint64_t{0};

    TRIREME_GPU static uint64_t key_of(float logit, int64_t id) {
        return logit == logit ? order_key(logit, id) : kNotANumber;
    }
    TRIREME_GPU static float logit_of(uint64_t key) { return logit_of_key(key); }
    /// State of a row: all threads of the block have the same values.
    template <class Gpu>
    struct Row {
        Gpu& gpu;
        const Args& a;
        Shared& shared;
        float top = 0;
        uint64_t floor = 0;         // smaller keys are left out
        uint64_t least = 0;         // smaller weights count as 0
        int listed = -1;            // tokens in the list; -1: all are read from the logits
        int64_t next = 0, end = 0;  // range of the row's uniforms and ids
        int elders = 0;             // siblings drawn so far; their keys are in `shared`

        /// Calls visit(key) for this thread's tokens; together the block's threads have all of them.
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

        /// Computes shared.sums: for each digit at `shift` the weight, or the number, of the keys that begin with
        /// `prefix` and have this digit; and shared.groups: sums of kGroup digits.
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
                // Adding in 32 bits takes one instruction; a thread whose addition overflows adds a carry.
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
        /// The digit in whose sum `t` falls, from the largest digit down; larger digits are subtracted from t.
        TRIREME_GPU int digit_of(uint64_t& t) const {
            int group = kGroups - 1;
            for (; group > 0 && t >= shared.groups[group]; --group) t -= shared.groups[group];
            int digit = group * kGroup + kGroup - 1;
            for (; digit > 0 && t >= shared.sums[digit]; --digit) t -= shared.sums[digit];
            return digit;
        }
        /// Sets `found` to the first key at which the running sum exceeds threshold(total), if there is one. `filters`:
        /// later steps read no smaller keys. Two digits (sign, exponent and 7 bits of the logit) usually leave few.
        template <class Threshold>
        TRIREME_GPU void select(bool counted, bool filters, const Threshold& threshold, uint64_t& found) {
            uint64_t prefix = 0, t = 0;
            for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
                uint64_t digit = kDigits - 1;
                if (shift >= 32 ||
                    (a.vocab - 1) >> shift > 0) {  // else ids are shorter: their complements have ones here
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
                if (filters && shift == 64 - 2 * kBits) list(prefix > floor ? prefix : floor, 0);
            }
            found = prefix;
        }
        /// Lists the keys from `first` on whose weight is at least `heavy`, if they fit and no list exists; later steps
        /// then read only these.
        TRIREME_GPU void list(uint64_t first, uint64_t heavy) {
            if (listed >= 0) return;
            if (gpu.thread() == 0) shared.next = 0;
            gpu.sync();
            bool full = false;
            each([&](uint64_t k) {
                if (full || k < first || (heavy > 0 && weight(k) < heavy)) return;
                const uint32_t at = gpu.fetch_add(&shared.next, 1);  // in any order
                full = at >= kListed;
                if (!full) shared.list[at] = k;
            });
            gpu.sync();
            if (shared.next <= kListed) listed = static_cast<int>(shared.next);
        }

        TRIREME_GPU void filter() {
            floor = kLowestKey;
            const auto k = static_cast<uint64_t>(a.rule.top_k);
            if (k > 0)
                select(
                    true, true, [&](uint64_t) { return k - 1; }, floor);
            if (min_of(k > 0 ? a.rule.top_k : a.vocab, a.vocab) <= kListed) list(floor, 0);
            if (a.rule.top_p < SamplingRule::kOne) {
                const auto last = [&](uint64_t total) {
                    const uint64_t reach = part_of(total, a.rule.top_p, /*up=*/true);
                    return reach > 0 ? reach - 1 : 0;
                };
                select(false, true, last, floor);
            }
            if (floor > kLowestKey || a.rule.min_weight > 0) list(floor, a.rule.min_weight);
            least = a.rule.min_weight;
        }
        /// Writes the row's next token; key 0: there is none.
        TRIREME_GPU void take(uint64_t key) {
            if (gpu.thread() == 0) {
                a.ids[next] = key == 0 ? -1 : static_cast<int32_t>(~static_cast<uint32_t>(key));
                if (key != 0) shared.elders[elders] = key;
            }
            if (key != 0) ++elders;
            ++next;
        }
        /// Draws tokens, without earlier siblings (add_up). `sum` receives the weight that filters leave.
        TRIREME_GPU void draw(uint64_t& sum) {
            bool first = true;
            do {
                uint64_t drawn = 0;
                const auto reach = [&](uint64_t total) {
                    if (first) sum = total;
                    if (next == end) return total;  // which no sum exceeds
                    return part_of(total, static_cast<uint64_t>(a.uniforms[next]), /*up=*/false);
                };
                select(false, false, reach, drawn);
                if (next < end) take(drawn);
                first = false;
            } while (next < end);
        }
        TRIREME_GPU void take_largest(uint64_t largest) {
            if (next < end) take(largest);
            if (next == end) return;
            // Drops all but the `most` largest tokens, then repeatedly takes the first that is not an earlier sibling.
            const auto most = static_cast<uint64_t>(end - next);
            floor = kLowestKey;
            select(
                true, true, [&](uint64_t) { return most - 1; }, floor);
            list(floor, 0);
            while (next < end) {
                uint64_t taken = 0;
                select(
                    true, false, [](uint64_t) { return uint64_t{0}; }, taken);
                take(taken);
            }
        }
    };
};

}  // namespace trireme::gpu
