#pragma once
/// Acceptance of a tree of proposals on a GPU: kernels/acceptance.h by one block, whose threads all decide alike.

#include "kernels/acceptance.h"
#include "kernels/place.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Grid: one block, because each decision depends on the one before. All threads walk the tree alike. A thread has
/// consecutive ids of the vocabulary, so that a draw finds its token by the sums of the threads before.
struct Accept {
    static constexpr int kThreads = 512, kBlocksOfSm = 1, kMost = 64;
    struct Shared {
        U128 sums[kThreads];  // weight of each thread's ids
        U128 total;
        int64_t drawn;
        int32_t children[kMost];
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    static_assert(alignof(Shared) <= alignof(Bits16), "shared memory is aligned to 16 bytes");
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        const Proposal* proposals;             // [1 + nodes]
        const RowDistribution* distributions;  // [rows], the verifier's
        const float* logits;  // [parts, rows or more, cols]; the last 1 + nodes of `rows` are the proposals'
        int64_t nodes, rows, cols, part_stride, vocab;
        uint64_t* weights;  // [vocab]: p after a rejection
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
            gpu.sync();  // the children of the last position have been read
            for (int32_t i = 0; i < a.nodes; ++i) {
                if (nodes[i].parent != at) continue;
                if (gpu.thread() == 0) shared.children[count] = i;
                ++count;
            }
            gpu.sync();
            const int64_t r = a.rows - a.nodes + at;
            Place<Gpu> place{
                {nodes, shared.children, a.distributions[r], {a.logits + r * a.cols, a.cols, a.part_stride}, a.weights},
                gpu,
                a,
                shared};
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
    template <class Gpu>
    struct Place : ProposalPlace {
        Gpu& gpu;
        const Args& a;
        Shared& shared;

        /// The ids of this thread are consecutive, so that the sum over earlier threads is the sum before its ids.
        TRIREME_GPU int64_t begin() const { return gpu.thread() * a.vocab / kThreads; }
        TRIREME_GPU int64_t end() const { return (gpu.thread() + 1) * a.vocab / kThreads; }

        /// The sum over the vocabulary; shared.sums becomes the weight of each thread's ids.
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
            // A thread reads and writes only the weights of its own ids. settle() has read p of the proposed tokens
            // before.
            for (int64_t i = begin(); i < end(); ++i) residual[i] = static_cast<uint64_t>(weigh(i) >> shift);
            gpu.sync();  // all threads have read the total
            set_residual(static_cast<uint64_t>(total([this](int64_t i) { return Wide(residual[i]); })));
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
