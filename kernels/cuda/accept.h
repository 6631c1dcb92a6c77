#pragma once
/// Acceptance of a tree of proposals on a GPU: kernels/acceptance.h by one block, whose threads all decide alike.

#include "kernels/acceptance.h"
#include "kernels/law.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

struct Accept {
    static constexpr int kThreads = 512, kBlocksOfSm = 1, kMost = 64;
    struct Shared {
        U128 sums[kThreads];  // of each thread's ids
        U128 total;
        int64_t drawn;
        int32_t children[kMost];
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        const Proposal* proposals;  // [1 + nodes]
        const RowLaw* laws;         // [rows], the verifier's
        const float* logits;        // [parts, rows, cols]; the last 1 + nodes rows are the proposals'
        int64_t nodes, rows, cols, vocab;
        uint64_t* weights;  // [vocab]: p behind a second refusal
        int32_t* out;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const Proposal* nodes = a.proposals + 1;
        int32_t at = -1, kept = 0;
        int64_t drawn = -1;
        for (;;) {
            int64_t count = 0;
            gpu.sync();  // the children of the last place have been read
            for (int32_t i = 0; i < a.nodes; ++i) {
                if (nodes[i].parent != at) continue;
                if (gpu.thread() == 0) shared.children[count] = i;
                ++count;
            }
            gpu.sync();
            const int64_t r = a.rows - a.nodes + at;
            Place<Gpu> place{gpu, a, shared, a.laws[r], {a.logits + r * a.cols, a.cols, a.rows * a.cols}};
            const int64_t stays = settle(place, count, drawn);
            if (stays < 0) break;
            at = shared.children[stays];
            if (gpu.thread() == 0) a.out[2 + kept] = at;
            ++kept;
        }
        if (gpu.thread() == 0) {
            a.out[0] = kept;
            a.out[1] = static_cast<int32_t>(drawn);
        }
    }

  private:
    /// What an id weighs; as the CPU's weight_at (kernels/cpu/row_law.h).
    TRIREME_GPU static uint64_t weight_at(const RowLaw& law, const LogitsRow& row, int64_t id) {
        const float logit = row.data[id / row.cols * row.stride + id % row.cols];
        if (order_key(logit, id) < law.floor) return 0;
        const float below = logit - law.top;
        const auto w = static_cast<uint64_t>(exp2f(below == 0 ? 0 : below * law.scale) * SamplingRule::kFirstWeight);
        return w < law.least ? 0 : w;
    }

    template <class Gpu>
    struct Place {
        using Weight = uint64_t;
        using Wide = U128;

        Gpu& gpu;
        const Args& a;
        Shared& shared;
        RowLaw law;
        LogitsRow row;
        bool is_explicit = false;
        uint64_t explicit_sum = 0;

        TRIREME_GPU uint64_t p(int64_t i) const { return is_explicit ? a.weights[i] : weight_at(law, row, i); }
        TRIREME_GPU uint64_t p_sum() const { return is_explicit ? explicit_sum : law.sum; }
        TRIREME_GPU const Proposal& child(int64_t c) const { return a.proposals[1 + shared.children[c]]; }
        TRIREME_GPU int64_t token(int64_t c) const { return child(c).token; }
        TRIREME_GPU uint64_t alone(int64_t c, int64_t i) const {
            const Proposal& x = child(c);
            return x.row.data == nullptr ? (i == x.token ? 1 : 0) : weight_at(*x.law, x.row, i);
        }
        TRIREME_GPU uint64_t q(int64_t c, int64_t i) const {
            if (child(c).row.data != nullptr) {
                for (int64_t elder = 0; elder < c; ++elder) {
                    if (token(elder) == i) return 0;
                }
            }
            return alone(c, i);
        }
        TRIREME_GPU uint64_t q_sum(int64_t c) const {
            if (child(c).row.data == nullptr) return 1;
            uint64_t sum = child(c).law->sum;
            for (int64_t elder = 0; elder < c; ++elder) sum -= alone(c, token(elder));
            return sum;
        }
        TRIREME_GPU bool happens(int64_t c, Wide x, Wide y) const { return below(child(c).uniform, x, y); }

        /// The ids of this thread: consecutive, so that sums before a thread are sums before its ids.
        TRIREME_GPU int64_t begin() const { return gpu.thread() * a.vocab / kThreads; }
        TRIREME_GPU int64_t end() const { return (gpu.thread() + 1) * a.vocab / kThreads; }

        /// The sum over the vocabulary; shared.sums is what each thread's ids weigh.
        template <class Weigh>
        TRIREME_GPU Wide total(const Weigh& weigh) const {
            Wide mine = 0;
            for (int64_t i = begin(); i < end(); ++i) mine += weigh(i);
            shared.sums[gpu.thread()] = mine;
            gpu.sync();
            if (gpu.thread() == 0) {
                Wide sum = 0;
                for (int t = 0; t < kThreads; ++t) sum += shared.sums[t];
                shared.total = sum;
            }
            gpu.sync();
            return shared.total;
        }
        template <class Weigh>
        TRIREME_GPU void become(const Weigh& weigh) {
            const int shift = rounding_shift(total(weigh));
            // A thread reads and writes its own ids' weights; those of the tokens it asks p for are read before, in
            // settle().
            for (int64_t i = begin(); i < end(); ++i) a.weights[i] = static_cast<uint64_t>(weigh(i) >> shift);
            gpu.sync();  // everybody has read the total
            is_explicit = true;
            explicit_sum = static_cast<uint64_t>(total([this](int64_t i) { return Wide(a.weights[i]); }));
        }
        template <class Weigh>
        TRIREME_GPU int64_t draw(const Weigh& weigh) const {
            const Wide all = total(weigh);
            if (all == 0) return -1;
            const Wide reach = share(a.proposals[0].uniform, all);
            Wide before = 0;
            for (int t = 0; t < gpu.thread(); ++t) before += shared.sums[t];
            if (before <= reach && reach < before + shared.sums[gpu.thread()]) {
                int64_t i = begin();
                for (Wide sum = before + weigh(i); sum <= reach; sum += weigh(i)) ++i;
                shared.drawn = i;
            }
            gpu.sync();
            return shared.drawn;
        }
    };
};

}  // namespace trireme::gpu
