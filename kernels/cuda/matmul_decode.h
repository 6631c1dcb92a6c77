#pragma once
/// Decode products, out = x w^T for up to 64 rows: weights are read once for all rows.
///
/// A row has the same bits alone and among others. Every product of a block runs over k in the same pieces of 32, which
/// go to warps by index and are added in the order of warps. Rows are columns of the tensor cores' tiles, which do not
/// mix columns; only the number of tiles depends on the number of rows.

#include "kernels/cuda/rowwise.h"

namespace trireme::gpu {

/// Rounds x to the weights' type and pads it with zeros to whole pieces of k, or to whole blocks. Grid: pieces of a
/// row, rows; a thread has an element. Done once, because every block of MatmulDecode reads all of x.
template <class T>
struct RoundRows {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<const float> x;
        Rows<T> out;
        int64_t k, padded;
        int64_t skip = 0;  // zeros before x: columns of another rank in the first block of w
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t i = int64_t{gpu.block_x()} * kThreads + gpu.thread(), row = gpu.block_y();
        const bool of_x = i >= a.skip && i < a.skip + a.k;
        if (i < a.padded) narrow(of_x ? a.x(row)[i - a.skip] : 0.0f, a.out(row) + i);
    }
};

/// Plain weights [n, k], as MatmulDecode reads them.
template <class T>
struct PlainWeights {
    using Element = T;
    static_assert(8 * sizeof(T) == sizeof(Bits16));
    const T* data;
    bool aligned;  // rows begin at multiples of 16 bytes

    /// Elements [k, k + 8) of row `row`, zeros beyond the matrix.
    template <class Gpu>
    TRIREME_GPU Bits16 eight(Gpu& gpu, int64_t row, int64_t k, int64_t rows, int64_t cols) const {
        if (row < rows && k + 8 <= cols && aligned) return gpu.stream16(data + row * cols + k);
        Bits16 bits = {};
        if (k >= cols) return bits;
        TRIREME_UNROLL  // else `bits` is indexed at run time and lies in local memory
            for (int i = 0; i < 8; ++i) {
            if (row < rows && k + i < cols)
                bits.word[i / 2] |= static_cast<uint32_t>(data[row * cols + k + i].bits) << (16 * (i % 2));
        }
        return bits;
    }
};

/// 16-bit weights on tensor cores, or weights that become 16-bit in registers (matmul_blocks.h). Grid: pieces of
/// kColumns columns. A block owns these columns of out for all rows, so that weights are read once. Its warps share k,
/// so that 16 columns suffice to keep eight warps loading.
///
/// With `gated`, the first half of w's rows gives gates, the second half what they multiply, and out = swiglu of both:
/// a block has 8 rows of each half. The sums have the bits of a product without `gated`.
///
/// mma m16n8k16 multiplies 16 rows of w by 8 rows of x over 16 elements of k. These may be any 16, if both sides use
/// the same ones. So lane t of four loads 8 consecutive elements of its rows, 16 bytes at once. It passes the first
/// four to one mma and the last four to the next.
template <class T, int kTiles, class Weights = PlainWeights<T>>
struct MatmulDecode {
    static constexpr int kThreads = 256, kBlocksOfSm = 2, kWarps = kThreads / kWarp, kPiece = 32,
                         kStep = kWarps * kPiece;
    static constexpr int kColumns = 16, kRows = 8;  // of an mma's tile: columns and rows of out
    static constexpr int kAhead = 2;                // steps of k whose weights are in flight at once
    static constexpr int64_t kSharedBytes = int64_t{kWarps} * kTiles * kWarp * 4 * sizeof(float);
    static_assert(kThreads % kWarp == 0 && kColumns * kRows == 4 * kWarp, "a lane has four sums of a tile");
    static_assert(kPiece == 4 * 8 && 8 * sizeof(T) == sizeof(Bits16), "four lanes load a piece, 8 elements each");
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        RoundedRows out;
        Rows<const T> x;  // rounded and padded
        Weights w;        // [n, k]
        int64_t rows, n, k;
        bool gated = false;
    };

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int lane = gpu.thread() % kWarp, warp = gpu.thread() / kWarp, group = lane / 4, quad = lane % 4;
        // Of a tile's 16 rows of w, a lane loads two.
        const int64_t column = int64_t{gpu.block_x()} * (a.gated ? kColumns / 2 : kColumns) + group;
        const int64_t other = column + (a.gated ? a.n / 2 : kColumns / 2);
        float acc[kTiles][4] = {};
        for (int64_t first = int64_t{warp} * kPiece; first < a.k; first += kAhead * kStep) {
            Bits16 low[kAhead], high[kAhead];
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                low[s] = a.w.eight(gpu, column, first + s * kStep + 8 * quad, a.n, a.k);
                high[s] = a.w.eight(gpu, other, first + s * kStep + 8 * quad, a.n, a.k);
            }
            TRIREME_UNROLL
            for (int s = 0; s < kAhead; ++s) {
                if (first + s * kStep >= a.k) continue;  // the whole warp
                for (int t = 0; t < kTiles; ++t) {
                    const Bits16 x = row_of_x(gpu, a, t * kRows + group, first + s * kStep + 8 * quad);
                    for (int half = 0; half < 4; half += 2) {
                        const uint32_t left[4] = {low[s].word[half], high[s].word[half], low[s].word[half + 1],
                                                  high[s].word[half + 1]};
                        const uint32_t right[2] = {x.word[half], x.word[half + 1]};
                        gpu.template mma<T>(acc[t], left, right);
                    }
                }
            }
        }
        float* sums = static_cast<float*>(gpu.shared());  // [warp][tile][4][lane]
        for (int t = 0; t < kTiles; ++t) {
            for (int i = 0; i < 4; ++i) sums[((warp * kTiles + t) * 4 + i) * kWarp + lane] = acc[t][i];
        }
        gpu.sync();
        for (int at = gpu.thread(); at < kTiles * 4 * kWarp; at += kThreads) {
            const int t = at / (4 * kWarp), i = at / kWarp % 4, l = at % kWarp;
            if (a.gated && i >= 2) continue;
            const int64_t row = t * kRows + l % 4 * 2 + i % 2;
            const int64_t n = int64_t{gpu.block_x()} * (a.gated ? kColumns / 2 : kColumns) + l / 4 + i / 2 * 8;
            if (row >= a.rows || n >= (a.gated ? a.n / 2 : a.n)) continue;
            const float sum = total(sums, at);
            a.out.put(row, n, a.gated ? swiglu_of(sum, total(sums, at + 2 * kWarp)) : sum);
        }
    }

  private:
    /// An element's sum over warps, in their order.
    TRIREME_GPU static float total(const float* sums, int at) {
        float sum = 0;
        for (int w = 0; w < kWarps; ++w) sum += sums[w * kTiles * 4 * kWarp + at];
        return sum;
    }
    template <class Gpu>
    TRIREME_GPU static Bits16 row_of_x(Gpu& gpu, const Args& a, int64_t row, int64_t k) {
        if (row < a.rows) return gpu.load16(a.x(row) + k);
        return Bits16{};
    }
};

/// f32 weights. Grid: pieces of kColumns columns. A warp owns a column of out: its lanes share k and use fused
/// multiply-adds in f32, so that only a shuffle adds them. The warp takes kRows rows at a time, whose sums are
/// registers.
struct MatmulDecodeF32 {
    static constexpr int kThreads = 256, kRows = 8, kColumns = kThreads / kWarp;
    static_assert(kThreads % kWarp == 0);
    static constexpr int kAhead = 4;  // weights that a lane has in flight at once
    struct Args {
        Rows<float> out;
        Rows<const float> x;
        const float* w;
        int64_t rows, n, k;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int lane = gpu.thread() % kWarp;
        const int64_t n = int64_t{gpu.block_x()} * kColumns + gpu.thread() / kWarp;
        if (n >= a.n) return;  // the whole warp
        const float* w = a.w + n * a.k;
        for (int64_t first = 0; first < a.rows; first += kRows) {
            float acc[kRows] = {};
            for (int64_t i = lane; i < a.k; i += kAhead * kWarp) {
                float weight[kAhead];
                TRIREME_UNROLL
                for (int s = 0; s < kAhead; ++s) weight[s] = i + s * kWarp < a.k ? w[i + s * kWarp] : 0;
                TRIREME_UNROLL
                for (int s = 0; s < kAhead; ++s) {
                    if (i + s * kWarp >= a.k) continue;
                    for (int r = 0; r < kRows; ++r) {
                        if (first + r < a.rows) acc[r] = fmaf(a.x(first + r)[i + s * kWarp], weight[s], acc[r]);
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

}  // namespace trireme::gpu
