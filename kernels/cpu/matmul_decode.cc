/// Decode products, out = x w^T for up to 64 rows: weights are read from memory once for all rows. Rows of blocks are
/// decoded into the cache, a few at a time: to plain rows, or to codes (coded-inl.h).

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "kernels/cpu/ops.h"
#include "runtime/stored_type.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_decode.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/blocks-inl.h"
#include "kernels/cpu/coded-inl.h"
#include "kernels/cpu/pairs-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_MATMUL_DECODE_ONCE
#define TRIREME_KERNELS_CPU_MATMUL_DECODE_ONCE
namespace trireme {

/// Weight rows of blocks that are decoded at a time: every tile height divides it.
inline constexpr int64_t kDecodedRows = 12;

/// A product with rows of blocks: MatmulArgs::k counts the elements of whole blocks.
struct BlockRows {
    StoredType type;
    int64_t stride;     // bytes of a row
    const float* sums;  // of rows of x over 16 elements, if the products are of pairs (coded-inl.h)
    void* decoded;      // [kDecodedRows, k], this thread's
};

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

// Rows are taken in groups of at most 4, weight rows in tiles whose accumulators fit the registers: 12 of the 16 that
// AVX2 has. AVX-512 has 32. There 4 weight rows by 4 rows are 1.1 to 1.4 times as fast as 3 by 4, because sums of four
// need no detour through memory (6 by 4, 4 by 6, 3 by 8 are slower again; Zen 4). Every tile height divides 12.
constexpr int tile_height(int64_t rows) {
    if (rows <= 2) return 6;
    return rows == 3 || HWY_TARGET <= HWY_AVX3 ? 4 : 3;
}

/// Multiplies weight rows [begin, end) by one group of R rows.
template <int R, class T>
void group(const MatmulArgs& a, const T* w, int64_t row, int64_t begin, int64_t end, Ahead& ahead) {
    constexpr int W = tile_height(R);
    static_assert(12 % W == 0, "a block of weight rows is a multiple of 12 (block_rows)");
    static_assert(W * R <= (HWY_TARGET <= HWY_AVX3 ? 16 : 12), "accumulators must fit the registers");
    const float* x = static_cast<const float*>(a.x) + row * a.x_stride;
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

#if TRIREME_PAIRS
TRIREME_BEFORE_PAIRS

/// Like group, with dot products of pairs.
template <int R>
HWY_NOINLINE void pair_group(const MatmulArgs& a, const bf16* w, int64_t row, int64_t begin, int64_t end,
                             Ahead& ahead) {
    const bf16* x = static_cast<const bf16*>(a.x) + row * a.x_stride;
    float* out = a.out + row * a.out_stride;
    int64_t n = begin;
    for (; n + 4 <= end; n += 4) {
        const bf16* rows[] = {w + n * a.k, w + (n + 1) * a.k, w + (n + 2) * a.k, w + (n + 3) * a.k};
        pair_tile<4, R>(rows, x, a.x_stride, a.k, out + n, a.out_stride, ahead);
    }
    for (; n < end; ++n) {
        const bf16* rows[] = {w + n * a.k};
        pair_tile<1, R>(rows, x, a.x_stride, a.k, out + n, a.out_stride, ahead);
    }
}

TRIREME_AFTER_PAIRS
#endif

struct Plain {
    static constexpr int height(int64_t rows) { return tile_height(rows); }
    template <int R, class T>
    static HWY_INLINE void multiply(const MatmulArgs& a, const T* w, int64_t row, int64_t begin, int64_t end,
                                    Ahead& ahead) {
        group<R>(a, w, row, begin, end, ahead);
    }
};

struct Pairs {
    static constexpr int kHeight = 4;
    static_assert(12 % kHeight == 0, "a block of weight rows is a multiple of 12 (block_rows)");
    static constexpr int height(int64_t) { return kHeight; }
    template <int R>
    static HWY_INLINE void multiply([[maybe_unused]] const MatmulArgs& a, [[maybe_unused]] const bf16* w,
                                    [[maybe_unused]] int64_t row, [[maybe_unused]] int64_t begin,
                                    [[maybe_unused]] int64_t end, [[maybe_unused]] Ahead& ahead) {
#if TRIREME_PAIRS
        pair_group<R>(a, w, row, begin, end, ahead);
#endif
    }
};

/// Multiplies weight rows [begin, end) by the rows `part` of x, one to four.
template <class How, class T>
HWY_INLINE void one_group(const MatmulArgs& a, const T* w, const Part& part, int64_t begin, int64_t end, Ahead& ahead) {
    switch (part.end - part.begin) {
        case 1:
            return How::template multiply<1>(a, w, part.begin, begin, end, ahead);
        case 2:
            return How::template multiply<2>(a, w, part.begin, begin, end, ahead);
        case 3:
            return How::template multiply<3>(a, w, part.begin, begin, end, ahead);
        default:
            return How::template multiply<4>(a, w, part.begin, begin, end, ahead);
    }
}

/// Multiplies blocks of weight rows. A block remains in the cache while the groups pass over it; meanwhile the thread's
/// next block is prefetched. During its last one, the thread prefetches its first block of the next product: weights
/// are stored in the order in which a forward reads them. (If they are not, only time is lost.)
template <class How, class T>
void columns(const MatmulArgs& a, int64_t block, Handout& blocks, int thread) {
    const T* w = static_cast<const T*>(a.w);
    const int64_t groups = (a.rows + 3) / 4;
    for (int64_t b = blocks.first(thread), next; b < blocks.size(); b = next) {
        next = blocks.next();
        const int64_t n = b * block, n_end = std::min(n + block, a.n);
        const int64_t fetched = next < blocks.size() ? next * block * a.k : (a.n + thread * block) * a.k;
        Ahead ahead{reinterpret_cast<const char*>(w + fetched)};
        for (int64_t g = 0; g < groups; ++g) {
            const Part part = part_of(a.rows, static_cast<int>(g), static_cast<int>(groups));
            ahead.step = 64 * How::height(part.end - part.begin) / groups;
            ahead.lines = (ahead.step + 63) / 64;
            one_group<How>(a, w, part, n, n_end, ahead);
        }
    }
}

/// Multiplies runs of `block` weight rows, which are decoded first.
template <class T>
void block_columns(const MatmulArgs& a, const BlockRows& b, int64_t block, Handout& blocks, int thread) {
    T* decoded = static_cast<T*>(b.decoded);
    for (int64_t i = blocks.first(thread); i < blocks.size(); i = blocks.next()) {
        for (int64_t n = i * block, end = std::min(n + block, a.n), some; n < end; n += some) {
            some = std::min(kDecodedRows, end - n);
            for (int64_t r = 0; r < some; ++r) {
                const uint8_t* row = static_cast<const uint8_t*>(a.w) + (n + r) * b.stride;
                for (int64_t line = 0; line < b.stride; line += 64) prefetch(row + kDecodedRows * b.stride + line);
                decode_blocks(b.type, row, a.k, decoded + r * a.k);
            }
            MatmulArgs part = a;
            part.out += n;
            Ahead none;
            const int64_t groups = (a.rows + 3) / 4;
            for (int64_t g = 0; g < groups; ++g) {
                const Part rows = part_of(a.rows, static_cast<int>(g), static_cast<int>(groups));
                one_group<Plain>(part, static_cast<const T*>(decoded), rows, 0, some, none);
            }
        }
    }
}

void matmul_block_columns(const MatmulArgs& a, const BlockRows& b, bool to_bf16, bool pairs, int64_t block,
                          Handout& blocks, int thread) {
#if TRIREME_PAIRS
    if (pairs) {
        for (int64_t i = blocks.first(thread); i < blocks.size(); i = blocks.next()) {
            multiply_coded_rows(b.type, a, b.sums, b.stride, i * block, std::min((i + 1) * block, a.n),
                                static_cast<float*>(b.decoded));
        }
        return;
    }
#endif
    (void)pairs;
    if (to_bf16) return block_columns<bf16>(a, b, block, blocks, thread);
    block_columns<float>(a, b, block, blocks, thread);
}

void matmul_columns(const MatmulArgs& a, DType type, bool pairs, int64_t block, Handout& blocks, int thread) {
    if (pairs) return columns<Pairs, bf16>(a, block, blocks, thread);
    with_type(type, [&](auto t) HWY_ATTR { columns<Plain, decltype(t)>(a, block, blocks, thread); });
}

void matmul_sums([[maybe_unused]] const bf16* x, [[maybe_unused]] int64_t rows, [[maybe_unused]] int64_t x_stride,
                 [[maybe_unused]] int64_t k, [[maybe_unused]] float* sums) {
#if TRIREME_PAIRS
    sum_coded_rows(x, rows, x_stride, k, sums);
#endif
}

/// Packs x after `skip` zeros: rounded to bf16 if the weights are bf16, padded with zeros to `stride`.
void matmul_pack(const Matrix<const float>& x, int64_t skip, bool to_bf16, float* packed, int64_t stride) {
    static_assert(32 % kLanes == 0 && 32 % kPairLanes == 0, "packed_stride is whole vectors");
    const F d;
    for (int64_t r = 0; r < x.rows; ++r) {
        const float* from = x.row(r);
        float* to = packed + r * stride + skip;
        std::fill_n(to - skip, skip, 0.0F);
        std::fill_n(to + x.cols, stride - skip - x.cols, 0.0F);
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
HWY_EXPORT(matmul_block_columns);
HWY_EXPORT(matmul_pack);
HWY_EXPORT(matmul_sums);

/// Whole vectors of any target and type, and a cache line more: rows 4 KiB apart would compete for the same cache sets.
int64_t packed_stride(int64_t k) {
    return (k + 31) / 32 * 32 + 32;
}

/// Weight rows of a block: a multiple of every tile height. A block fits the cache, and each thread has four or more,
/// if 12 rows allow it. Blocks that are read `often` fit the first-level cache: 64 rows with dot products of pairs are
/// 1.1 times as fast (Zen 5), others are not.
int64_t block_rows(int64_t n, int64_t row_bytes, int64_t threads, bool often) {
    const int64_t most_bytes = often ? 32768 : 65536;
    int64_t block = 48;
    while (block > 12 && (block * row_bytes > most_bytes || n < 4 * threads * block)) block /= 2;
    return block;
}

/// Packs the rows of x as products take them: bf16 pairs, or f32, which `to_bf16` rounds. Columns before `skip` and
/// after the last one are zeros. Row stride: `stride`.
void pack_rows(const Matrix<const float>& x, int64_t skip, bool to_bf16, bool pairs, void* packed, int64_t stride) {
    if (!pairs) return HWY_DYNAMIC_DISPATCH(matmul_pack)(x, skip, to_bf16, static_cast<float*>(packed), stride);
    for (int64_t r = 0; r < x.rows; ++r) {
        bf16* to = static_cast<bf16*>(packed) + r * stride;
        std::fill_n(to, skip, bf16());
        round_to_pairs(x.row(r), x.cols, to + skip, stride - skip);
    }
}

/// Blocks whose rows follow each other.
bool in_file_order(const WeightRows& part) {
    return is_quantised(part.type) && !part.interleaved;
}

size_t packed_bytes(const KernelLimits& limits) {
    return static_cast<size_t>(limits.max_rows * packed_stride(most_k(limits))) * sizeof(float);
}
size_t sums_bytes(const KernelLimits& limits) {
    return limits.blocks ? static_cast<size_t>(limits.max_rows * coded_sums(most_k(limits))) * sizeof(float) : 0;
}

}  // namespace

void multiply_interleaved(const Tensor& out, const Tensor& x, const WeightMatrix& w, void* scratch) {
    auto* packed = static_cast<std::byte*>(scratch);
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = x.as<const float>();
    const bool two = w.as() == ActivationType::kQ16;
    int64_t column = 0, packed_k = 0;
    for (const WeightRows& part : w.parts()) {
        const int64_t begin = part.first, end = begin + part.rows, k = w.stored_cols(part.type);
        float* to = o.data + column;
        column += part.rows;
        if (!part.interleaved) continue;
        if (k != packed_k) {
            for_items(in.rows, k, [&](int64_t r, int) {
                pack_bytes(in.row(r), in.cols, w.skip(), k, two, packed + r * byte_row_bytes(k));
            });
            packed_k = k;
        }
        const ByteProduct p{packed,      o.rows, k,  part.type, static_cast<const std::byte*>(part.data),
                            part.stride, two,    to, begin,     o.stride};
        const int64_t tiles = (end + kInterleaved - 1) / kInterleaved;
        const int64_t some =
            std::clamp<int64_t>(tiles / (4 * parallel_width()), 1, 4);  // a thread has four turns or more
        Handout turns((tiles + some - 1) / some, parallel_width());
        parallel([&](int thread, int) {
            for (int64_t i = turns.first(thread); i < turns.size(); i = turns.next()) {
                multiply_bytes(p, std::max(begin, i * some * kInterleaved),
                               std::min(end, (i + 1) * some * kInterleaved));
            }
        });
    }
}

size_t matmul_decode_scratch(const KernelLimits& limits, int threads) {
    const int64_t decoded = limits.blocks ? threads * kDecodedRows * most_k(limits) : 0;
    return packed_bytes(limits) + sums_bytes(limits) + static_cast<size_t>(decoded) * sizeof(float);
}

void matmul_blocks_decode(const Tensor& out, const Tensor& x, const WeightMatrix& w, const KernelLimits& limits,
                          void* scratch) {
    multiply_interleaved(out, x, w, scratch);
    const Matrix<float> o = out.as<float>();
    const bool to_bf16 = rounds_to_bf16(w.as()), pairs = to_bf16 && bf16_dots();
    int64_t widest = 0;
    for (const WeightRows& part : w.parts()) {
        if (in_file_order(part)) widest = std::max(widest, w.stored_cols(part.type));
    }
    const int64_t stride = packed_stride(widest);
    if (widest > 0) pack_rows(x.as<const float>(), w.skip(), to_bf16, pairs, scratch, stride);
    auto* sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + packed_bytes(limits));
    char* decoded = static_cast<char*>(scratch) + packed_bytes(limits) + sums_bytes(limits);
    int64_t first = 0, summed = 0;
    for (const WeightRows& part : w.parts()) {
        const int64_t column = first, k = w.stored_cols(part.type);
        first += part.rows;
        if (!in_file_order(part)) continue;
        const MatmulArgs args{scratch, part.data, o.data + column, o.rows, part.rows, k, stride, o.stride};
        if (pairs && has_offsets(part.type) && summed != k) {
            HWY_DYNAMIC_DISPATCH(matmul_sums)(static_cast<const bf16*>(scratch), o.rows, stride, k, sums);
            summed = k;
        }
        // A few rows at a time are decoded into the cache, so the size of a block does not count.
        const int64_t block = block_rows(part.rows, /*row_bytes=*/0, parallel_width(), /*often=*/false);
        Handout blocks((part.rows + block - 1) / block, parallel_width());
        parallel([&](int thread, int) {
            const auto mine = static_cast<size_t>(thread * kDecodedRows * most_k(limits)) * sizeof(float);
            HWY_DYNAMIC_DISPATCH(matmul_block_columns)
            (args, {part.type, part.stride, sums, decoded + mine}, to_bf16, pairs, block, blocks, thread);
        });
    }
    first = 0;  // plain parts pack x in their own way
    for (const WeightRows& part : w.parts()) {
        if (!is_quantised(part.type)) matmul_decode(out.slice_cols(first, part.rows), x, w.plain(part), scratch);
        first += part.rows;
    }
}

void matmul_decode(const Tensor& out, const Tensor& x, const Tensor& w, void* scratch) {
    const Matrix<float> o = out.as<float>();
    const int64_t n = w.dim(0), k = w.dim(1);
    const bool to_bf16 = w.dtype() == DType::kBF16, pairs = to_bf16 && bf16_dots();
    pack_rows(x.as<const float>(), 0, to_bf16, pairs, scratch, packed_stride(k));
    const MatmulArgs args{scratch, w.data(), o.data, o.rows, n, k, packed_stride(k), o.stride};
    const int64_t block =
        block_rows(n, k * static_cast<int64_t>(size_of(w.dtype())), parallel_width(), pairs && o.rows > 8);
    Handout blocks((n + block - 1) / block, parallel_width());
    parallel([&](int thread, int) {
        HWY_DYNAMIC_DISPATCH(matmul_columns)(args, w.dtype(), pairs, block, blocks, thread);
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
