#pragma once
/// MailboxSum: an all-reduce of few floats in one kernel, through host memory that the GPUs of all ranks map. Every
/// rank writes its part to its mailbox and reads the others'; there are no further steps.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// What a rank gives the others. Blocks of the kernel are independent: block b of each rank has elements
/// [b * kFloats, (b + 1) * kFloats). Parts of successive calls alternate: a rank writes the part of call c + 2 after it
/// has seen all ranks in call c + 1, hence when they have read its part of call c.
struct Mailbox {
    static constexpr int kBlocks = 64, kFloats = 1024;
    struct alignas(64) Word {
        uint32_t value;
    };
    Word calls[kBlocks];      // the last call whose part each block has written
    alignas(4096) Word stop;  // not 0: this rank's kernels end without waiting for the others
    alignas(4096) float parts[2][kBlocks * kFloats];
};

/// x = x_0 + x_1 + ... in rank order (dist/ordered_sum.h). Grid: runs of kFloats elements. All blocks must be on the
/// GPU at once, because a block waits for those of other ranks. A warp writes and reads 128 adjacent bytes, which are
/// one packet on the link.
struct MailboxSum {
    static constexpr int kThreads = 256, kEach = Mailbox::kFloats / kThreads;  // elements of a thread
    struct Args {
        float* x;
        int64_t n;
        Mailbox* boxes;   // of all ranks, in host memory
        uint32_t* calls;  // of this rank's blocks so far, in device memory
        int ranks, rank;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int block = gpu.block_x();
        const int64_t first = int64_t{block} * Mailbox::kFloats + gpu.thread();
        const uint32_t call = a.calls[block] + 1;
        float mine[kEach] = {};
        TRIREME_UNROLL
        for (int i = 0; i < kEach; ++i) {
            const int64_t at = first + i * kThreads;
            if (at < a.n) a.boxes[a.rank].parts[call % 2][at] = mine[i] = a.x[at];
        }
        gpu.sync();
        if (gpu.thread() == 0) {
            a.calls[block] = call;
            gpu.publish(&a.boxes[a.rank].calls[block].value, call);
        }
        gpu.sync();  // no thread of the first warp waits before this rank has published
        if (gpu.thread() < a.ranks && gpu.thread() != a.rank) {
            gpu.await(&a.boxes[gpu.thread()].calls[block].value, call, &a.boxes[a.rank].stop.value);
        }
        gpu.sync();
        float sum[kEach] = {};
        for (int r = 0; r < a.ranks; ++r) {
            TRIREME_UNROLL
            for (int i = 0; i < kEach; ++i) {
                const int64_t at = first + i * kThreads;
                if (at >= a.n) continue;
                const float part = r == a.rank ? mine[i] : a.boxes[r].parts[call % 2][at];
                sum[i] = r == 0 ? part : sum[i] + part;
            }
        }
        TRIREME_UNROLL
        for (int i = 0; i < kEach; ++i) {
            if (first + i * kThreads < a.n) a.x[first + i * kThreads] = sum[i];
        }
    }
};

}  // namespace trireme::gpu
