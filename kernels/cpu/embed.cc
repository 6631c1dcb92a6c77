#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embed.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void embed_row(DType type, const void* from, float* to, int64_t n) {
    with_type(type, [&](auto t) HWY_ATTR {
        map_row(static_cast<const decltype(t)*>(from), to, n, [](Vf v, int64_t) HWY_ATTR { return v; });
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(embed_row);

void embed(const Tensor& out, const Tensor& table, const Tensor& ids) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const int32_t> id = ids.as<const int32_t>();
    const int64_t vocab = table.dim(0);
    const size_t row_bytes = static_cast<size_t>(table.stride()) * size_of(table.dtype());
    for (int64_t r = 0; r < o.rows; ++r) {
        check(*id.row(r) >= 0 && *id.row(r) < vocab, "embed: id {} at row {}, the table has {} rows", *id.row(r), r,
              vocab);
    }
    for_rows(o.rows, o.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const char* from = static_cast<const char*>(table.data()) + static_cast<size_t>(*id.row(r)) * row_bytes;
            HWY_DYNAMIC_DISPATCH(embed_row)(table.dtype(), from, o.row(r), o.cols);
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
