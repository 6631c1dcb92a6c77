/// out = x w^T for up to 64 rows: the weights stream from memory once, whatever the number of rows.

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_decode.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/dot-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

// Rows are taken in groups of at most 4, weight rows in tiles whose accumulators fit the registers: 12 of the 16 that
// AVX2 has; AVX-512 has 32, and there 4 weight rows by 4 rows are 1.1 to 1.4 times as fast as 3 by 4, since sums of
// four need no detour through memory (6 by 4, 4 by 6, 3 by 8 are slower again; Zen 4). Every tile height divides 12.
constexpr int tile_height(int64_t rows) {
    if (rows <= 2) return 6;
    return rows == 3 || HWY_TARGET <= HWY_AVX3 ? 4 : 3;
}

/// Weight rows [begin, end) of one group of R rows.
template <int R, class T>
void group(const MatmulArgs& a, const T* w, int64_t row, int64_t begin, int64_t end, Ahead& ahead) {
    constexpr int W = tile_height(R);
    const float* x = a.x + row * a.x_stride;
    float* out = a.out + row * a.out_stride;
    const T* rows[W];
    int64_t n = begin;
    for (; n + W <= end; n += W) {
        for (int j = 0; j < W; ++j) rows[j] = w + (n + j) * a.k;
        dot_tile<W, R>(rows, x, a.x_stride, a.k, out + n, a.out_stride, ahead);
    }
    for (; n < end; ++n) {
        rows[0] = w + n * a.k;
        dot_tile<1, R>(rows, x, a.x_stride, a.k, out + n, a.out_stride, ahead);
    }
}

/// Blocks of weight rows: a block stays in the cache while the groups pass over it; meanwhile the thread's next block
/// is fetched.
template <class T>
void columns(const MatmulArgs& a, int64_t block, Handout& blocks, int thread) {
    const T* w = static_cast<const T*>(a.w);
    const int64_t groups = (a.rows + 3) / 4;
    for (int64_t b = blocks.first(thread), next; b < blocks.size(); b = next) {
        next = blocks.next();
        const int64_t n = b * block, n_end = std::min(n + block, a.n);
        const bool more = next < blocks.size();
        Ahead ahead{more ? reinterpret_cast<const char*>(w + next * block * a.k) : nullptr};
        for (int64_t g = 0; g < groups; ++g) {
            const Part part = part_of(a.rows, static_cast<int>(g), static_cast<int>(groups));
            const int64_t rows = part.end - part.begin;
            ahead.step = more ? 64 * tile_height(rows) / groups : 0;
            ahead.lines = (ahead.step + 63) / 64;
            switch (rows) {
                case 1:
                    group<1>(a, w, part.begin, n, n_end, ahead);
                    break;
                case 2:
                    group<2>(a, w, part.begin, n, n_end, ahead);
                    break;
                case 3:
                    group<3>(a, w, part.begin, n, n_end, ahead);
                    break;
                default:
                    group<4>(a, w, part.begin, n, n_end, ahead);
                    break;
            }
        }
    }
}

void matmul_columns(const MatmulArgs& a, DType type, int64_t block, Handout& blocks, int thread) {
    with_type(type, [&](auto t) HWY_ATTR { columns<decltype(t)>(a, block, blocks, thread); });
}

/// x, rounded to bf16 where the weights are, padded with zeros to whole vectors.
void matmul_pack(const Matrix<const float>& x, bool to_bf16, float* packed, int64_t stride) {
    const F d;
    for (int64_t r = 0; r < x.rows; ++r) {
        const float* from = x.row(r);
        float* to = packed + r * stride;
        for (int64_t i = 0; i < x.cols; i += kLanes) {
            const Vf v = i + kLanes <= x.cols ? hn::LoadU(d, from + i) : load_n(d, from + i, x.cols - i);
            hn::StoreU(to_bf16 ? round_to_bf16(d, v) : v, d, to + i);
        }
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {
namespace {

HWY_EXPORT(matmul_columns);
HWY_EXPORT(matmul_pack);

/// Whole vectors of any target, and a cache line more: rows 4 KiB apart would fight for the same cache sets.
int64_t packed_stride(int64_t k) {
    return (k + 15) / 16 * 16 + 16;
}

/// Weight rows of a block: a multiple of every tile's height, so many that a block stays in the cache, and so few that
/// each thread gets four, where 12 rows allow it.
int64_t block_rows(int64_t n, int64_t row_bytes, int64_t threads) {
    constexpr int64_t kBlockBytes = 65536;
    int64_t block = 48;
    while (block > 12 && (block * row_bytes > kBlockBytes || n < 4 * threads * block)) block /= 2;
    return block;
}

}  // namespace

size_t matmul_decode_scratch(const KernelLimits& limits) {
    return static_cast<size_t>(limits.max_rows * packed_stride(limits.max_k)) * sizeof(float);
}

void matmul_decode(const Tensor& out, const Tensor& x, const Tensor& w, void* scratch) {
    const Matrix<float> o = out.as<float>();
    const int64_t n = w.dim(0), k = w.dim(1);
    float* packed = static_cast<float*>(scratch);
    HWY_DYNAMIC_DISPATCH(matmul_pack)(x.as<const float>(), w.dtype() == DType::kBF16, packed, packed_stride(k));
    const MatmulArgs args{packed, w.data(), o.data, o.rows, n, k, packed_stride(k), o.stride};
    const int64_t block = block_rows(n, k * static_cast<int64_t>(size_of(w.dtype())), parallel_width());
    Handout blocks((n + block - 1) / block, parallel_width());
    parallel([&](int thread, int) { HWY_DYNAMIC_DISPATCH(matmul_columns)(args, w.dtype(), block, blocks, thread); });
}

}  // namespace trireme
#endif  // HWY_ONCE
