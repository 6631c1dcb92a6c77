/// out = x w^T for a prefill chunk: a blocked multiply in f32 over weights widened as they are packed.

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_prefill.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/gemm-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_MATMUL_PREFILL_ONCE
#define TRIREME_KERNELS_CPU_MATMUL_PREFILL_ONCE
namespace trireme {

// A panel of 16 columns by 320 (20 KiB) stays in the first-level cache, 192 rows of x by 320 (240 KiB) in the second.
inline constexpr int64_t kDepth = 320, kRowBlock = 192, kColumnBlock = 128;

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Columns [begin, end) of out, in steps over k of equal depth whatever the thread count. panels: one column block.
template <class T>
void multiply_columns(const MatmulArgs& a, int64_t begin, int64_t end, float* panels) {
    const T* w = static_cast<const T*>(a.w);
    const int64_t steps = (a.k + kDepth - 1) / kDepth, depth = ((a.k + steps - 1) / steps + 7) / 8 * 8;
    for (int64_t n0 = begin; n0 < end; n0 += kColumnBlock) {
        const int64_t n1 = std::min(n0 + kColumnBlock, end);
        for (int64_t k0 = 0; k0 < a.k; k0 += depth) {
            const int64_t k = std::min(depth, a.k - k0);
            float* to = panels;
            for (int64_t n = n0; n < n1;) {
                const int64_t width = panel_width(n, n1);
                pack_transposed(w + n * a.k + k0, a.k, std::min(width, n1 - n), k, to, width);
                to += width * k;
                n += width;
            }
            for (int64_t r = 0; r < a.rows; r += kRowBlock) {
                const int64_t rows = std::min(kRowBlock, a.rows - r);
                const float *x = a.x + r * a.x_stride + k0, *panel = panels;
                for (int64_t n = n0; n < n1;) {
                    const int64_t width = panel_width(n, n1), cols = std::min(width, n1 - n);
                    float* out = a.out + r * a.out_stride + n;
                    if (k0 == 0) {
                        multiply_panel<false>(x, a.x_stride, rows, panel, width, k, out, a.out_stride, cols);
                    } else {
                        multiply_panel<true>(x, a.x_stride, rows, panel, width, k, out, a.out_stride, cols);
                    }
                    panel += width * k;
                    n += width;
                }
            }
        }
    }
}

void multiply_part(const MatmulArgs& a, DType type, int64_t begin, int64_t end, float* panels) {
    switch (type) {
        case DType::kF16:
            return multiply_columns<f16>(a, begin, end, panels);
        case DType::kBF16:
            return multiply_columns<bf16>(a, begin, end, panels);
        default:
            return multiply_columns<float>(a, begin, end, panels);
    }
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
    MatmulArgs args{in.data, w.data(), o.data, o.rows, k, in.stride, o.stride};
    if (w.dtype() == DType::kBF16) {
        for_rows(in.rows, k, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) HWY_DYNAMIC_DISPATCH(round_x)(in.row(r), rounded + r * k, k);
        });
        args.x = rounded;
        args.x_stride = k;
    }
    parallel([&](int thread, int threads) {
        const Part units = part_of((n + kColumnUnit - 1) / kColumnUnit, thread, threads);
        HWY_DYNAMIC_DISPATCH(multiply_part)
        (args, w.dtype(), units.begin * kColumnUnit, std::min(units.end * kColumnUnit, n),
         panels + thread * kPanelFloats);
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
