#pragma once
/// Products and embeddings of weights in blocks. Weights are decoded in registers.
///
/// With f16, MatmulDecode multiplies them (BlockWeights): a decoded weight is rounded to f16, and the product has the
/// bits of a matrix that was widened to f16 when loaded. With f32, MatmulBlocksF32 multiplies exact values. Prefill
/// decodes panels of rows for cuBLASLt (DecodeRows).

#include "kernels/cuda/fault.h"
#include "kernels/cuda/matmul_decode.h"
#include "kernels/cuda/stored_eight.h"

namespace trireme::gpu {

/// Elements [k, k + 8) of row `row`; k is a multiple of 8.
template <StoredType kType>
TRIREME_GPU StoredEight<kType> stored_eight(const Rows<const uint8_t>& w, int64_t row, int64_t k) {
    using Eight = StoredEight<kType>;
    return Eight(w(row) + k / Eight::kElements * Eight::kBytes, static_cast<int>(k % Eight::kElements));
}

/// Weights in blocks, as MatmulDecode reads them; its k are the elements of whole blocks.
template <StoredType kType, class T>
struct BlockWeights {
    using Element = T;
    Rows<const uint8_t> rows_of_blocks;  // the stride is in bytes

    /// Elements [k, k + 8) of row `row`, zeros beyond the matrix.
    template <class Gpu>
    TRIREME_GPU Bits16 eight(Gpu&, int64_t row, int64_t k, int64_t rows, int64_t cols) const {
        Bits16 bits = {};
        if (row >= rows || k >= cols) return bits;
        const StoredEight<kType> x = stored_eight<kType>(rows_of_blocks, row, k);
        TRIREME_UNROLL  // else `bits` is indexed at run time and lies in local memory
            for (int i = 0; i < 8; ++i) {
            T narrowed;
            narrow(x[i], &narrowed);
            bits.word[i / 2] |= static_cast<uint32_t>(narrowed.bits) << (16 * (i % 2));
        }
        return bits;
    }
};

/// f32 products. Grid: pieces of kColumns columns. A warp owns a column of out; a lane has every 32nd run of 8 elements
/// of k, and takes kRows rows at a time, whose sums are registers. A row has the same bits alone and among others.
template <StoredType kType>
struct MatmulBlocksF32 {
    static constexpr int kThreads = 256, kRows = 4, kColumns = kThreads / kWarp;
    static_assert(kThreads % kWarp == 0);
    struct Args {
        Rows<float> out;
        Rows<const float> x;    // columns [skip, skip + k) of w's
        Rows<const uint8_t> w;  // the stride is in bytes
        int64_t rows, n, k, skip;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int lane = gpu.thread() % kWarp;
        const int64_t n = int64_t{gpu.block_x()} * kColumns + gpu.thread() / kWarp;
        if (n >= a.n) return;  // the whole warp
        for (int64_t first = 0; first < a.rows; first += kRows) {
            float acc[kRows] = {};
            for (int64_t i = 8 * lane; i < a.skip + a.k; i += 8 * kWarp) {
                const StoredEight<kType> w = stored_eight<kType>(a.w, n, i);
                TRIREME_UNROLL
                for (int e = 0; e < 8; ++e) {
                    const int64_t at = i + e - a.skip;
                    if (at < 0 || at >= a.k) continue;
                    for (int r = 0; r < kRows; ++r) {
                        if (first + r < a.rows) acc[r] = fmaf(a.x(first + r)[at], w[e], acc[r]);
                    }
                }
            }
            for (int r = 0; r < kRows; ++r) {
                const float sum = warp_sum(gpu, acc[r]);
                if (lane == 0 && first + r < a.rows) a.out(first + r)[n] = sum;
            }
        }
    }
};

/// Rows of blocks as plain elements, rounded to T. Grid: pieces of a row, rows; a thread has 8 elements. With ids, row
/// r of out is row ids[r] of w: an embedding.
template <StoredType kType, class T>
struct DecodeRows {
    static constexpr int kThreads = 128, kElements = 8 * kThreads;
    struct Args {
        Rows<T> out;            // [grid.y, k]
        Rows<const uint8_t> w;  // the stride is in bytes
        const int32_t* ids;     // null: row r is row r
        int64_t rows, k, skip;  // rows of w; columns [skip, skip + k) of them
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t row = a.ids == nullptr ? gpu.block_y() : a.ids[gpu.block_y()];
        if (row < 0 || row >= a.rows) return gpu.fault(Fault::kEmbedId, row, a.rows);
        const int64_t i = int64_t{gpu.block_x()} * kElements + 8 * gpu.thread();
        if (i >= a.skip + a.k) return;
        const StoredEight<kType> x = stored_eight<kType>(a.w, row, i);
        TRIREME_UNROLL
        for (int e = 0; e < 8; ++e) {
            const int64_t at = i + e - a.skip;
            if (at >= 0 && at < a.k) narrow(x[e], a.out(gpu.block_y()) + at);
        }
    }
};

}  // namespace trireme::gpu
