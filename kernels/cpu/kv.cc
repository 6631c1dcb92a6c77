/// Keys and values into the staging rows and into tiles, rounded to the cache's types.

#include <cstring>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kv_view.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void round_to(DType type, const float* from, void* to, int64_t n) {
    with_type(type, [&](auto t) HWY_ATTR { round_row(from, static_cast<decltype(t)*>(to), n); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(round_to);

namespace {

/// A row of k or v, head by head, into slots `slot_bytes` long that lie `head_bytes` apart.
void round_heads(const float* row, int64_t kv_heads, int64_t head_dim, DType type, char* slot, size_t head_bytes) {
    for (int64_t h = 0; h < kv_heads; ++h) {
        HWY_DYNAMIC_DISPATCH(round_to)(type, row + h * head_dim, slot + static_cast<size_t>(h) * head_bytes, head_dim);
    }
}

}  // namespace

void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v) {
    const KvView view(kv);
    const Matrix<const float> keys = k.as<const float>(), values = v.as<const float>();
    const KvLayout& l = kv.layout;
    for (int64_t r = 0; r < keys.rows; ++r) {
        round_heads(keys.row(r), l.kv_heads, l.head_dim, l.k_type, view.staged_key(0, r), view.staged_k_head);
        round_heads(values.row(r), l.kv_heads, l.head_dim, l.v_type, view.staged_value(0, r), view.staged_v_head);
    }
}

void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    const KvView view(kv);
    const Matrix<const float> keys = k.as<const float>(), values = v.as<const float>();
    const Matrix<const int32_t> position = rows.positions.as<const int32_t>();
    const Matrix<const int32_t> sequence = rows.sequences.as<const int32_t>();
    const KvLayout& l = kv.layout;
    for (int64_t r = 0; r < keys.rows; ++r) view.check_tile(*sequence.row(r), *position.row(r), "kv_append");
    for_rows(keys.rows, keys.cols * 4, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const int64_t s = *sequence.row(r), p = *position.row(r);
            char* tile = view.tile(s, p / kTileTokens);
            round_heads(keys.row(r), l.kv_heads, l.head_dim, l.k_type, view.key(tile, 0, p % kTileTokens),
                        view.tile_k_head);
            round_heads(values.row(r), l.kv_heads, l.head_dim, l.v_type, view.value(tile, 0, p % kTileTokens),
                        view.tile_v_head);
        }
    });
}

void kv_keep(const LayerKv& kv, const Tensor& kept) {
    const KvView view(kv);
    const Matrix<const int32_t> k = kept.as<const int32_t>();
    for (int64_t i = 0; i < k.rows; ++i) {
        const int64_t row = k(i, 0), p = k(i, 1), s = k(i, 2);
        check(row >= 0 && row < kMaxRows, "kv_keep: staged row {} of {}", row, kMaxRows);
        view.check_tile(s, p, "kv_keep");
        char* tile = view.tile(s, p / kTileTokens);
        for (int64_t h = 0; h < kv.layout.kv_heads; ++h) {
            std::memcpy(view.key(tile, h, p % kTileTokens), view.staged_key(h, row), view.k_slot);
            std::memcpy(view.value(tile, h, p % kTileTokens), view.staged_value(h, row), view.v_slot);
        }
    }
}

}  // namespace trireme
#endif  // HWY_ONCE
