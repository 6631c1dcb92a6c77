#pragma once
/// SumParts: the kernel with which NcclComm adds received parts in rank order (dist/ordered_sum.h).

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// out[i] = part 0 [i] + part 1 [i] + ... for i in [0, n). Part r begins at parts[r * stride], except that part `own`,
/// this rank's, is `out` itself.
struct SumParts {
    static constexpr int kThreads = 256;
    struct Args {
        float* out;
        const float* parts;
        int64_t stride, n;
        int ranks, own;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t i = static_cast<int64_t>(gpu.block_x()) * kThreads + gpu.thread();
        if (i >= a.n) return;
        const float mine = a.out[i];
        float sum = a.own == 0 ? mine : a.parts[i];
        for (int r = 1; r < a.ranks; ++r) sum += r == a.own ? mine : a.parts[r * a.stride + i];
        a.out[i] = sum;
    }
};

}  // namespace trireme::gpu
