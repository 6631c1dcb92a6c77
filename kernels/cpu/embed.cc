#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/interleaved.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embed.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/blocks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void embed_row(DType type, const void* from, float* to, int64_t n) {
    with_type(type, [&](auto t) HWY_ATTR {
        map_row(static_cast<const decltype(t)*>(from), to, n, [](Vf v, int64_t) HWY_ATTR { return v; });
    });
}

void embed_block_row(StoredType type, const void* from, float* to, int64_t n) {
    decode_blocks(type, static_cast<const uint8_t*>(from), n, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(embed_row);
HWY_EXPORT(embed_block_row);

namespace {

/// widen(id, row of out) for every id.
template <class Widen>
void each_id(const Tensor& out, const Tensor& ids, int64_t vocab, const Widen& widen) {
    const Matrix<float> o = out.as<float>();
    const Matrix<const int32_t> id = ids.as<const int32_t>();
    for (int64_t r = 0; r < o.rows; ++r) {
        check(*id.row(r) >= 0 && *id.row(r) < vocab, "embed: id {} at row {}, the table has {} rows", *id.row(r), r,
              vocab);
    }
    for_rows(o.rows, o.cols, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) widen(*id.row(r), o.row(r));
    });
}

}  // namespace

void embed(const Tensor& out, const Tensor& table, const Tensor& ids) {
    const size_t row_bytes = static_cast<size_t>(table.stride()) * size_of(table.dtype());
    each_id(out, ids, table.dim(0), [&](int32_t id, float* to) {
        const char* from = static_cast<const char*>(table.data()) + static_cast<size_t>(id) * row_bytes;
        HWY_DYNAMIC_DISPATCH(embed_row)(table.dtype(), from, to, out.cols());
    });
}

void embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) {
    const WeightRows& rows = table.parts().front();
    const auto* data = static_cast<const std::byte*>(rows.data);
    const int64_t blocks = rows.stride / static_cast<int64_t>(layout_of(rows.type).bytes);
    each_id(out, ids, rows.rows, [&](int32_t id, float* to) {
        std::vector<std::byte> row;
        if (rows.interleaved) {
            row.resize(static_cast<size_t>(rows.stride));
            read_interleaved(rows.type, data, rows.stride, rows.first + id, 0, blocks, row.data());
        }
        const std::byte* from = rows.interleaved ? row.data() : data + id * rows.stride;
        HWY_DYNAMIC_DISPATCH(embed_block_row)(rows.type, from, to, out.cols());
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
