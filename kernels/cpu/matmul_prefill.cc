/// Prefill products, out = x w^T: a blocked multiply of f32 by weights that are widened as they are loaded, or of bf16
/// by bf16 if the CPU has dot products of pairs.

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_prefill.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

/// Computes columns [begin, end) of out, in steps over k of equal depth for any thread count. panels: one column block.
template <class P>
void multiply_columns(const MatmulArgs& a, int64_t begin, int64_t end, typename P::Weight* panels) {
    const auto* w = static_cast<const typename P::Weight*>(a.w);
    const auto* x = static_cast<const typename P::X*>(a.x);
    const int64_t steps = (a.k + P::kMostDepth - 1) / P::kMostDepth;
    const int64_t depth = ((a.k + steps - 1) / steps + P::kDepthUnit - 1) / P::kDepthUnit * P::kDepthUnit;
    for (int64_t n0 = begin; n0 < end; n0 += kColumnBlock) {
        const int64_t n = std::min(kColumnBlock, end - n0);
        for (int64_t k0 = 0; k0 < a.k; k0 += depth) {
            const int64_t k = std::min(depth, a.k - k0);
            P::pack(w + n0 * a.k + k0, a.k, n, k, panels);
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
    if (pairs) return multiply_columns<PanelsOfPairs>(a, begin, end, static_cast<bf16*>(panels));
#endif
    (void)pairs;
    with_type(type, [&](auto t) HWY_ATTR {
        multiply_columns<Panels<decltype(t)>>(a, begin, end, static_cast<decltype(t)*>(panels));
    });
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
HWY_EXPORT(round_x);

namespace {

constexpr int64_t kPanelFloats = kDepth * kColumnBlock;
static_assert(kPairDepth * kColumnBlock <= 2 * kPanelFloats);

}  // namespace

size_t matmul_prefill_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(threads * kPanelFloats + limits.max_rows * limits.max_k) * sizeof(float);
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
    if (pairs) {
        args.x = rounded;
        args.x_stride = (k + 1) / 2 * 2;
        for_rows(in.rows, k, [&](int64_t begin, int64_t end) {
            bf16* to = reinterpret_cast<bf16*>(rounded);
            for (int64_t r = begin; r < end; ++r) round_to_pairs(in.row(r), k, to + r * args.x_stride, args.x_stride);
        });
    } else if (w.dtype() == DType::kBF16) {
        for_rows(in.rows, k, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) HWY_DYNAMIC_DISPATCH(round_x)(in.row(r), rounded + r * k, k);
        });
        args.x = rounded;
        args.x_stride = k;
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
