/// out = x w^T for a prefill batch: a blocked multiply of f32 by weights that are widened as they are loaded, or of
/// bf16 by bf16 where the CPU multiplies those.

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

// A panel of 16 columns by 320 (20 KiB) stays in the first-level cache, 192 rows of x by 320 (240 KiB) in the second.
inline constexpr int64_t kDepth = 320, kRowBlock = 192, kColumnBlock = 128;
inline constexpr int64_t kPairDepth = 512;  // of bf16 by bf16

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// out (+)= what multiply(add, to, stride) gives for one panel of `width` columns, of which out has the first `cols`.
/// A panel that is wider than what is left of out goes through a tile of its own.
template <class Multiply>
void into_columns(const Multiply& multiply, int64_t rows, int64_t width, bool add, float* out, int64_t out_stride,
                  int64_t cols) {
    if (cols == width) return multiply(add, out, out_stride);
    constexpr int64_t kStride = 2 * 16;  // such a panel is two vectors wide at most
    float edge[kRowBlock * kStride];
    multiply(false, edge, kStride);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
            out[r * out_stride + c] = add ? out[r * out_stride + c] + edge[r * kStride + c] : edge[r * kStride + c];
        }
    }
}

/// Columns [begin, end) of out, in steps over k of equal depth whatever the thread count. panels: one column block.
template <class T>
void multiply_columns(const MatmulArgs& a, int64_t begin, int64_t end, T* panels) {
    const T* w = static_cast<const T*>(a.w);
    const int64_t steps = (a.k + kDepth - 1) / kDepth, depth = ((a.k + steps - 1) / steps + 7) / 8 * 8;
    for (int64_t n0 = begin; n0 < end; n0 += kColumnBlock) {
        const int64_t n = std::min(kColumnBlock, end - n0);
        for (int64_t k0 = 0; k0 < a.k; k0 += depth) {
            const int64_t k = std::min(depth, a.k - k0);
            pack_transposed(w + n0 * a.k + k0, a.k, n, k, panels, kTall, Upcoming{});
            for (int64_t r = 0; r < a.rows; r += kRowBlock) {
                const int64_t rows = std::min(kRowBlock, a.rows - r);
                for (int64_t at = 0; at < n;) {
                    const int64_t width = strip_width(at, n, kTall, 2 * kLanes);
                    const Strip<T> strip{panels + at * k, width, k};
                    const auto multiply = [&](bool add, float* to, int64_t stride) HWY_ATTR {
                        const float* from = static_cast<const float*>(a.x) + r * a.x_stride + k0;
                        if (add) return multiply_strip<true>(from, a.x_stride, rows, strip, width, to, stride);
                        multiply_strip<false>(from, a.x_stride, rows, strip, width, to, stride);
                    };
                    into_columns(multiply, rows, width, k0 > 0, a.out + r * a.out_stride + n0 + at, a.out_stride,
                                 std::min(width, n - at));
                    at += width;
                }
            }
        }
    }
}

#if TRIREME_PAIRS
/// The same on dot products of pairs; x is bf16.
void multiply_pairs(const MatmulArgs& a, int64_t begin, int64_t end, bf16* panels) {
    const auto *w = static_cast<const bf16*>(a.w), *x = static_cast<const bf16*>(a.x);
    const int64_t steps = (a.k + kPairDepth - 1) / kPairDepth;
    const int64_t depth = ((a.k + steps - 1) / steps + kPairLanes - 1) / kPairLanes * kPairLanes;
    for (int64_t n0 = begin; n0 < end; n0 += kColumnBlock) {
        const int64_t n = std::min(kColumnBlock, end - n0);
        for (int64_t k0 = 0; k0 < a.k; k0 += depth) {
            const int64_t k = std::min(depth, a.k - k0), pairs = (k + 1) / 2;
            pack_pairs(w + n0 * a.k + k0, a.k, n, k, panels);
            for (int64_t r = 0; r < a.rows; r += kRowBlock) {
                const int64_t rows = std::min(kRowBlock, a.rows - r);
                for (int64_t at = 0, width; at < n; at += width) {
                    width = pair_strip_width(at, n);
                    const PairStrip strip{panels + at * pairs * 2, width * 2, 32, k};
                    const auto multiply = [&](bool add, float* to, int64_t stride) HWY_ATTR {
                        const bf16* from = x + r * a.x_stride + k0;
                        if (add) return pair_multiply_strip<true>(from, a.x_stride, rows, strip, width, to, stride);
                        pair_multiply_strip<false>(from, a.x_stride, rows, strip, width, to, stride);
                    };
                    into_columns(multiply, rows, width, k0 > 0, a.out + r * a.out_stride + n0 + at, a.out_stride,
                                 std::min(width, n - at));
                }
            }
        }
    }
}
#endif

void multiply_part(const MatmulArgs& a, DType type, bool pairs, int64_t begin, int64_t end, void* panels) {
#if TRIREME_PAIRS
    if (pairs) return multiply_pairs(a, begin, end, static_cast<bf16*>(panels));
#endif
    (void)pairs;
    with_type(type, [&](auto t) HWY_ATTR { multiply_columns(a, begin, end, static_cast<decltype(t)*>(panels)); });
}

void round_x(const float* from, float* to, int64_t n) {
    map_row(from, to, n, [](Vf v, int64_t) HWY_ATTR { return round_to_bf16(F(), v); });
}
void round_x_to_pairs(const float* from, bf16* to, int64_t n) {
    round_row(from, to, n);
    if (n % 2 != 0) to[n] = bf16(0.0F);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(multiply_part);
HWY_EXPORT(round_x);
HWY_EXPORT(round_x_to_pairs);

namespace {

constexpr int64_t kPanelFloats = kDepth * kColumnBlock;
static_assert(kPairDepth * kColumnBlock <= 2 * kPanelFloats);
constexpr int64_t kColumnUnit = 64;  // threads take whole panels of every target

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
            for (int64_t r = begin; r < end; ++r) {
                HWY_DYNAMIC_DISPATCH(round_x_to_pairs)
                (in.row(r), reinterpret_cast<bf16*>(rounded) + r * args.x_stride, k);
            }
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
