#pragma once
/// Acceptance of a tree of proposals on a GPU: kernels/acceptance.h by one block, whose threads all decide alike.

#include "kernels/acceptance.h"
#include "kernels/place.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Grid: one block, because each decision depends on the one before. All threads walk the tree alike. Neighbouring
/// threads read neighbouring ids of the vocabulary. To sample a token, the block divides the ids into one part for each
/// warp, finds the part that holds the token by adding the parts' weights in order, and divides that part again.
struct Accept {
    static constexpr int kThreads = 512, kWarps = kThreads / kWarp, kBlocksOfSm = 1, kMost = 64;
    struct Shared {
        U128 sums[kWarps];
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

        /// Sets shared.sums to the weights of ids [begin, begin + each), [begin + each, begin + 2 each) and so on up to
        /// end, a part for each warp.
        template <class Weigh>
        TRIREME_GPU void add_parts(int64_t begin, int64_t end, int64_t each, const Weigh& weigh) const {
            const int warp = gpu.thread() / kWarp, lane = gpu.thread() % kWarp;
            const int64_t first = begin + warp * each, last = min_of(first + each, end);
            Wide sum = 0;
            for (int64_t i = first + lane; i < last; i += kWarp) sum += weigh(i);
            for (int mask = kWarp / 2; mask > 0; mask /= 2) {
                const uint64_t low = gpu.shuffle_xor(static_cast<uint64_t>(sum), mask);
                const uint64_t high = gpu.shuffle_xor(static_cast<uint64_t>(sum >> 64), mask);
                sum += Wide(high) << 64 | low;
            }
            gpu.sync();  // all threads have read the sums before
            if (lane == 0) shared.sums[warp] = sum;
            gpu.sync();
        }
        /// The sum over the vocabulary, by the parts in which draw() begins.
        template <class Weigh>
        TRIREME_GPU Wide total(const Weigh& weigh) const {
            add_parts(0, a.vocab, div_up(a.vocab, kWarps), weigh);
            Wide sum = 0;
            for (int w = 0; w < kWarps; ++w) sum += shared.sums[w];
            return sum;
        }
        template <class Weigh>
        TRIREME_GPU void become(const Weigh& weigh) {
            const int shift = rounding_shift(total(weigh));
            // weigh(i) reads no other weight than residual[i]. settle() has read p of the proposed tokens before.
            for (int64_t i = gpu.thread(); i < a.vocab; i += kThreads) {
                residual[i] = static_cast<uint64_t>(weigh(i) >> shift);
            }
            gpu.sync();
            set_residual(static_cast<uint64_t>(total([this](int64_t i) { return Wide(residual[i]); })));
        }
        template <class Weigh>
        TRIREME_GPU int64_t draw(const Weigh& weigh) const {
            const Wide all = total(weigh);
            if (all == 0) return -1;
            Wide reach = share(a.proposals[0].uniform, all);
            int64_t begin = 0, end = a.vocab;
            for (int64_t each = div_up(a.vocab, kWarps);; each = div_up(each, kWarps)) {
                int part = 0;
                for (; part < kWarps - 1 && reach >= shared.sums[part]; ++part) reach -= shared.sums[part];
                begin += part * each;
                end = min_of(begin + each, end);
                if (each == 1) return begin;
                add_parts(begin, end, div_up(each, kWarps), weigh);
            }
        }
    };
};

}  // namespace trireme::gpu
