#pragma once
/// Row-wise kernels: embedding, RMSNorm, RoPE, SwiGLU, add and gather. A block owns a row of the output, or a piece of
/// one. Threads stride over its elements, so that a warp reads and writes consecutive ones.

#include "kernels/cuda/fault.h"
#include "kernels/cuda/rotate.h"

namespace trireme::gpu {

/// out[r] = table[ids[r]]. Grid: rows. A block copies a row, so that it reads and checks the row's id once.
template <class T>
struct Embed {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<float> out;
        Rows<const T> table;
        const int32_t* ids;
        int64_t vocab, dim;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int32_t id = a.ids[gpu.block_x()];
        if (id < 0 || id >= a.vocab) return gpu.fault(Fault::kEmbedId, id, a.vocab);
        for (int64_t i = gpu.thread(); i < a.dim; i += kThreads) a.out(gpu.block_x())[i] = widen(a.table(id)[i]);
    }
};

/// x = 0. Grid: pieces of a row, rows; a thread has an element. Rows are divided because a decode forward has few.
struct Clear {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<float> x;
        int64_t n;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t i = gpu.block_x() * kThreads + gpu.thread();
        if (i < a.n) a.x(gpu.block_y())[i] = 0;
    }
};

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, by groups of n columns; first x += added, if there is any. Grid:
/// rows, groups. A block has a whole group of a row, because every element needs its sum. It has 512 threads, because a
/// decode forward has few rows.
struct RmsNorm {
    static constexpr int kThreads = 512;
    static_assert(kThreads % kWarp == 0, "block_sum adds whole warps");
    static constexpr int64_t kSharedBytes = kThreads / kWarp * sizeof(float);
    struct Args {
        RoundedRows out;      // its rows may lie in x's, if these have one group, or in added's
        Rows<float> x;        // written only if there is something to add
        const float* weight;  // [n]
        int64_t n;
        float eps;
        Rows<const float> added = {};  // of one group; may be none
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t row = gpu.block_x(), group = gpu.block_y() * a.n;
        float* x = a.x(row) + group;
        float squares = 0;
        for (int64_t i = gpu.thread(); i < a.n; i += kThreads) {
            if (a.added.data != nullptr) x[i] += a.added(row)[i];
            squares = fmaf(x[i], x[i], squares);
        }
        const float mean = block_sum<kThreads>(gpu, squares) / static_cast<float>(a.n);
        const float scale = 1.0f / sqrtf(mean + a.eps);
        for (int64_t i = gpu.thread(); i < a.n; i += kThreads) a.out.put(row, group + i, x[i] * scale * a.weight[i]);
    }
};

/// Rotates pairs (i, i + head_dim/2) of every head by the row's angles. Grid: rows. A block has all heads of a row,
/// which share its angles. A thread has whole pairs: it reads both elements before it writes them.
struct Rope {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<float> x;
        Rows<const float> cos_sin;  // cosines of the pairs, then sines
        int64_t heads, head_dim;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const auto pairs = static_cast<int>(a.head_dim / 2), n = static_cast<int>(a.heads) * pairs;
        const float* angle = a.cos_sin(gpu.block_x());
        for (int i = gpu.thread(); i < n; i += kThreads) {
            const int head = i / pairs, pair = i - head * pairs;
            float* x = a.x(gpu.block_x()) + 2 * head * pairs + pair;
            const float c = angle[pair], s = angle[pairs + pair], x0 = x[0], x1 = x[pairs];
            x[0] = rotated_low(x0, x1, c, s);
            x[pairs] = rotated_high(x0, x1, c, s);
        }
    }
};

TRIREME_GPU float swiglu_of(float gate, float up) {
    return gate / (1.0f + expf(-gate)) * up;
}

/// out = silu(gate) * up; gate in the first n columns of gate_up. Grid: pieces of a row, rows; a thread has an element.
/// Rows are divided because a decode forward has few rows, but many columns.
struct Swiglu {
    static constexpr int kThreads = 256;
    struct Args {
        RoundedRows out;
        Rows<const float> gate_up;
        int64_t n;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const float *gate = a.gate_up(gpu.block_y()), *up = gate + a.n;
        const int64_t i = int64_t{gpu.block_x()} * kThreads + gpu.thread();
        if (i < a.n) a.out.put(gpu.block_y(), i, swiglu_of(gate[i], up[i]));
    }
};

/// x += y; a bias has the row stride 0. Grid: pieces of a row, rows; a thread has an element, as in Swiglu.
struct Add {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<float> x;
        Rows<const float> y;
        int64_t n;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t i = int64_t{gpu.block_x()} * kThreads + gpu.thread();
        if (i < a.n) a.x(gpu.block_y())[i] += a.y(gpu.block_y())[i];
    }
};

/// out[i] = x[rows[i]]. Grid: rows of out. A block copies a row, so that it reads and checks the row's index once.
struct GatherRows {
    static constexpr int kThreads = 256;
    struct Args {
        Rows<float> out;
        Rows<const float> x;
        const int32_t* rows;
        int64_t x_rows, n;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int32_t row = a.rows[gpu.block_x()];
        if (row < 0 || row >= a.x_rows) return gpu.fault(Fault::kGatherRow, row, a.x_rows);
        for (int64_t i = gpu.thread(); i < a.n; i += kThreads) a.out(gpu.block_x())[i] = a.x(row)[i];
    }
};

}  // namespace trireme::gpu
