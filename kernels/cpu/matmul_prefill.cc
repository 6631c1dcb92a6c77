/// Prefill products, out = x w^T: a blocked multiply of f32 by weights that are widened as they are loaded, or of bf16
/// by bf16 if the CPU has dot products of pairs. Blocks are decoded one panel at a time.

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/ops.h"
#include "kernels/interleaved.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_prefill.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/blocks-inl.h"
#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/pair_gemm-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_MATMUL_PREFILL_ONCE
#define TRIREME_KERNELS_CPU_MATMUL_PREFILL_ONCE
namespace trireme {

// A panel of 16 columns by 320 (20 KiB) fits the first-level cache, 192 rows of x by 320 (240 KiB) the second.
inline constexpr int64_t kDepth = 320, kRowBlock = 192, kColumnBlock = 128;
inline constexpr int64_t kPairDepth = 512;  // for bf16 by bf16
inline constexpr int64_t kColumnUnit = 64;  // a thread takes whole panels, on every target
static_assert(kColumnBlock % kColumnUnit == 0);
static_assert(kRowBlock % 6 == 0, "register tiles have 6 rows");

/// A product with rows of blocks: MatmulArgs::k counts the elements of whole blocks.
struct BlockPanels {
    WeightRows rows;
    void* decoded;  // [kColumnBlock, depth], this thread's
};

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Adds one panel of `width` columns, which multiply(add, to, stride) computes, to out, or writes it there. out has the
/// first `cols` of its columns; if these are fewer than `width`, a local tile receives the panel.
template <class Multiply>
void into_columns(const Multiply& multiply, int64_t rows, int64_t width, bool add, float* out, int64_t out_stride,
                  int64_t cols) {
    if (cols == width) return multiply(add, out, out_stride);
    constexpr int64_t kStride = 2 * 16;  // such a panel is at most two vectors wide
    static_assert(2 * kLanes <= kStride && kPairTall / 2 <= kStride);
    float edge[kRowBlock * kStride];
    multiply(false, edge, kStride);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            out[r * out_stride + c] = add ? out[r * out_stride + c] + edge[r * kStride + c] : edge[r * kStride + c];
        }
    }
}

/// Panels of weights that are widened as they are loaded; x is f32.
template <class T>
struct Panels {
    using Weight = T;
    using X = float;
    static constexpr int64_t kMostDepth = kDepth, kDepthUnit = 8;
    static_assert(kColumnUnit % kTall == 0 && kMostDepth % kDepthUnit == 0, "panels, and steps over k, are whole");

    static int64_t width(int64_t at, int64_t n) { return strip_width(at, n, kTall, 2 * kLanes); }
    static void pack(const T* rows, int64_t stride, int64_t n, int64_t k, T* panels) {
        pack_transposed(rows, stride, n, k, panels, kTall, Upcoming{});
    }
    template <bool kAdd>
    static void multiply(const float* x, int64_t x_stride, int64_t rows, const T* panels, int64_t at, int64_t width,
                         int64_t k, float* out, int64_t out_stride) {
        multiply_strip<kAdd>(x, x_stride, rows, Strip<T>{panels + at * k, width, k}, width, out, out_stride);
    }
};

#if TRIREME_PAIRS
/// Panels of pairs; x is bf16.
struct PanelsOfPairs {
    using Weight = bf16;
    using X = bf16;
    static constexpr int64_t kMostDepth = kPairDepth, kDepthUnit = kPairLanes;
    static_assert(kColumnUnit % kPairTall == 0 && kMostDepth % kDepthUnit == 0, "panels, and steps over k, are whole");

    static int64_t width(int64_t at, int64_t n) { return pair_strip_width(at, n); }
    static void pack(const bf16* rows, int64_t stride, int64_t n, int64_t k, bf16* panels) {
        pack_pairs(rows, stride, n, k, panels);
    }
    template <bool kAdd>
    static void multiply(const bf16* x, int64_t x_stride, int64_t rows, const bf16* panels, int64_t at, int64_t width,
                         int64_t k, float* out, int64_t out_stride) {
        const PairStrip strip{panels + at * ((k + 1) / 2) * 2, width * 2, 32, k};
        pair_multiply_strip<kAdd>(x, x_stride, rows, strip, width, out, out_stride);
    }
};
#endif

/// Rows of weights as they are in memory.
template <class T>
struct PlainRows {
    const MatmulArgs& a;

    /// Rows [n0, n0 + n), columns [k0, k0 + k); `stride` receives elements from row to row.
    const T* operator()(int64_t n0, int64_t, int64_t k0, int64_t, int64_t& stride) const {
        stride = a.k;
        return static_cast<const T*>(a.w) + n0 * a.k + k0;
    }
    int64_t unit() const { return 1; }
};

/// Rows of blocks, decoded; k0 and k are whole blocks.
template <class T>
struct DecodedRows {
    const MatmulArgs& a;
    const BlockPanels& b;

    const T* operator()(int64_t n0, int64_t n, int64_t k0, int64_t k, int64_t& stride) const {
        const StoredType type = b.rows.type;
        const BlockLayout layout = layout_of(type);
        const int64_t first = k0 / layout.elements, blocks = k / layout.elements;
        T* decoded = static_cast<T*>(b.decoded);
        for (int64_t r = n0; r < n0 + n; ++r, decoded += k) {
            if (b.rows.interleaved) {
                decode_interleaved(r, first, blocks, decoded);
            } else {
                const auto* row = static_cast<const uint8_t*>(a.w) + r * b.rows.stride;
                decode_blocks(type, row + static_cast<size_t>(first) * layout.bytes, k, decoded);
            }
        }
        stride = k;
        return static_cast<const T*>(b.decoded);
    }
    void decode_interleaved(int64_t row, int64_t first, int64_t blocks, T* to) const {
        const BlockLayout layout = layout_of(b.rows.type);
        std::byte read[4096];
        const auto most = static_cast<int64_t>(sizeof read / layout.bytes);
        for (int64_t i = 0, some; i < blocks; i += some) {
            some = std::min(most, blocks - i);
            read_interleaved(b.rows.type, static_cast<const std::byte*>(a.w), b.rows.stride, b.rows.first + row,
                             first + i, some, read);
            decode_blocks(b.rows.type, reinterpret_cast<const uint8_t*>(read), some * layout.elements,
                          to + i * layout.elements);
        }
    }
    int64_t unit() const { return layout_of(b.rows.type).elements; }
};

/// Computes columns [begin, end) of out, in steps over k of equal depth for any thread count. panels: one column block.
template <class P, class Rows>
void multiply_columns(const MatmulArgs& a, const Rows& weights, int64_t begin, int64_t end,
                      typename P::Weight* panels) {
    const auto* x = static_cast<const typename P::X*>(a.x);
    const int64_t unit = std::max(P::kDepthUnit, weights.unit()), most = P::kMostDepth / unit * unit;
    const int64_t steps = (a.k + most - 1) / most;
    const int64_t depth = ((a.k + steps - 1) / steps + unit - 1) / unit * unit;
    for (int64_t n0 = begin; n0 < end; n0 += kColumnBlock) {
        const int64_t n = std::min(kColumnBlock, end - n0);
        for (int64_t k0 = 0; k0 < a.k; k0 += depth) {
            const int64_t k = std::min(depth, a.k - k0);
            int64_t apart;
            const typename P::Weight* rows_of = weights(n0, n, k0, k, apart);
            P::pack(rows_of, apart, n, k, panels);
            for (int64_t r = 0; r < a.rows; r += kRowBlock) {
                const int64_t rows = std::min(kRowBlock, a.rows - r);
                const auto* from = x + r * a.x_stride + k0;
                for (int64_t at = 0, width; at < n; at += width) {
                    width = P::width(at, n);
                    const auto multiply = [&](bool add, float* to, int64_t stride) HWY_ATTR {
                        if (add) {
                            P::template multiply<true>(from, a.x_stride, rows, panels, at, width, k, to, stride);
                        } else {
                            P::template multiply<false>(from, a.x_stride, rows, panels, at, width, k, to, stride);
                        }
                    };
                    into_columns(multiply, rows, width, k0 > 0, a.out + r * a.out_stride + n0 + at, a.out_stride,
                                 std::min(width, n - at));
                }
            }
        }
    }
}

void multiply_part(const MatmulArgs& a, DType type, bool pairs, int64_t begin, int64_t end, void* panels) {
#if TRIREME_PAIRS
    if (pairs) return multiply_columns<PanelsOfPairs>(a, PlainRows<bf16>{a}, begin, end, static_cast<bf16*>(panels));
#endif
    (void)pairs;
    with_type(type, [&](auto t) HWY_ATTR {
        using T = decltype(t);
        multiply_columns<Panels<T>>(a, PlainRows<T>{a}, begin, end, static_cast<T*>(panels));
    });
}

void multiply_block_part(const MatmulArgs& a, const BlockPanels& b, bool to_bf16, bool pairs, int64_t begin,
                         int64_t end, void* panels) {
#if TRIREME_PAIRS
    if (pairs) {
        return multiply_columns<PanelsOfPairs>(a, DecodedRows<bf16>{a, b}, begin, end, static_cast<bf16*>(panels));
    }
#endif
    (void)pairs;
    if (to_bf16) {
        return multiply_columns<Panels<bf16>>(a, DecodedRows<bf16>{a, b}, begin, end, static_cast<bf16*>(panels));
    }
    multiply_columns<Panels<float>>(a, DecodedRows<float>{a, b}, begin, end, static_cast<float*>(panels));
}

void round_x(const float* from, float* to, int64_t n) {
    map_row(from, to, n, [](Vf v, int64_t) HWY_ATTR { return round_to_bf16(F(), v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(multiply_part);
HWY_EXPORT(multiply_block_part);
HWY_EXPORT(round_x);

namespace {

constexpr int64_t kPanelFloats = kDepth * kColumnBlock;
static_assert(kPairDepth * kColumnBlock <= 2 * kPanelFloats);

/// Rows of x after `skip` zeros, padded with zeros to `stride`: rounded, in pairs or not, or as they are.
void copy_rows(const Matrix<const float>& in, int64_t skip, bool to_bf16, bool pairs, void* to, int64_t stride) {
    for_rows(in.rows, in.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            if (pairs) {
                bf16* row = static_cast<bf16*>(to) + r * stride;
                std::fill_n(row, skip, bf16());
                round_to_pairs(in.row(r), in.cols, row + skip, stride - skip);
                continue;
            }
            float* row = static_cast<float*>(to) + r * stride;
            std::fill_n(row, skip, 0.0F);
            std::fill_n(row + skip + in.cols, stride - skip - in.cols, 0.0F);
            if (to_bf16) {
                HWY_DYNAMIC_DISPATCH(round_x)(in.row(r), row + skip, in.cols);
            } else {
                std::copy_n(in.row(r), in.cols, row + skip);
            }
        }
    });
}

}  // namespace

size_t matmul_prefill_scratch(const KernelLimits& limits, int threads) {
    const int64_t panels = limits.blocks ? 2 * threads : threads;
    return static_cast<size_t>(panels * kPanelFloats + limits.max_rows * most_k(limits)) * sizeof(float);
}

void matmul_blocks_prefill(const Tensor& out, const Tensor& x, const WeightMatrix& w, const KernelLimits&,
                           void* scratch) {
    const Matrix<float> o = out.as<float>();
    const bool to_bf16 = rounds_to_bf16(w.as()), pairs = to_bf16 && bf16_dots();
    float* panels = static_cast<float*>(scratch);
    float* rows = panels + 2 * parallel_width() * kPanelFloats;
    int64_t widest = 0, first = 0;
    // Decoding panels takes longer than few rows: prompts of 50 tokens were 1.3 to 1.5 times as fast, of 512 slower.
    const bool few = o.rows <= kMaxRows;
    if (few) multiply_interleaved(out, x, w, scratch);
    const auto decoded = [few](const WeightRows& part) {
        return is_quantised(part.type) && !(few && part.interleaved);
    };
    for (const WeightRows& part : w.parts()) {
        if (decoded(part)) widest = std::max(widest, w.stored_cols(part.type));
    }
    if (widest > 0) copy_rows(x.as<const float>(), w.skip(), to_bf16, pairs, rows, widest);
    for (const WeightRows& part : w.parts()) {
        const int64_t column = first;
        first += part.rows;
        if (!decoded(part)) continue;
        const MatmulArgs args{rows,   part.data, o.data + column, o.rows, part.rows, w.stored_cols(part.type),
                              widest, o.stride};
        parallel([&](int thread, int threads) {
            const Part units = part_of((part.rows + kColumnUnit - 1) / kColumnUnit, thread, threads);
            float* mine = panels + 2 * thread * kPanelFloats;
            HWY_DYNAMIC_DISPATCH(multiply_block_part)
            (args, {part, mine + kPanelFloats}, to_bf16, pairs, units.begin * kColumnUnit,
             std::min(units.end * kColumnUnit, part.rows), mine);
        });
    }
    first = 0;  // plain parts round x in their own way
    for (const WeightRows& part : w.parts()) {
        if (!is_quantised(part.type)) matmul_prefill(out.slice_cols(first, part.rows), x, w.plain(part), scratch);
        first += part.rows;
    }
}

void matmul_prefill(const Tensor& out, const Tensor& x, const Tensor& w, void* scratch) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = x.as<const float>();
    const int64_t n = w.dim(0), k = w.dim(1);
    if (k == 0) {  // a rank without columns of the MLP adds nothing
        for (int64_t r = 0; r < o.rows; ++r) std::fill_n(o.row(r), n, 0.0f);
        return;
    }
    float* panels = static_cast<float*>(scratch);
    float* rounded = panels + parallel_width() * kPanelFloats;
    MatmulArgs args{in.data, w.data(), o.data, o.rows, n, k, in.stride, o.stride};
    const bool pairs = w.dtype() == DType::kBF16 && bf16_dots();
    if (w.dtype() == DType::kBF16) {
        args.x = rounded;
        args.x_stride = pairs ? (k + 1) / 2 * 2 : k;
        copy_rows(in, 0, /*to_bf16=*/true, pairs, rounded, args.x_stride);
    }
    parallel([&](int thread, int threads) {
        const Part units = part_of((n + kColumnUnit - 1) / kColumnUnit, thread, threads);
        HWY_DYNAMIC_DISPATCH(multiply_part)
        (args, w.dtype(), pairs, units.begin * kColumnUnit, std::min(units.end * kColumnUnit, n),
         panels + thread * kPanelFloats);
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
