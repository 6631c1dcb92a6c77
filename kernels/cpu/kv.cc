/// Writes keys and values to staged rows and to tiles, rounded to the cache's types.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kv_access.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Clamps to +-kMostF16 and rounds.
void saturate_row(const float* src, f16* dst, int64_t n) {
    const F d;
    const Vf most = hn::Set(d, kMostF16), least = hn::Set(d, -kMostF16);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        Vf v = hn::LoadU(d, src + i);  // both comparisons are false for NaN
        v = hn::IfThenElse(hn::Gt(v, most), most, v);
        v = hn::IfThenElse(hn::Lt(v, least), least, v);
        store_rounded(d, v, dst + i);
    }
    for (; i < n; ++i) dst[i] = f16(src[i] > kMostF16 ? kMostF16 : src[i] < -kMostF16 ? -kMostF16 : src[i]);
}

void round_to(DType type, const float* from, void* to, int64_t n) {
    if (type == DType::kF16) return saturate_row(from, static_cast<f16*>(to), n);
    with_type(type, [&](auto t) HWY_ATTR { round_row(from, static_cast<decltype(t)*>(to), n); });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(round_to);

namespace {

/// Rounds a row of k or v head by head; place(head) is the address of that head's elements.
template <class Place>
void round_heads(const float* row, const KvLayout& l, DType type, const Place& place) {
    for (int64_t h = 0; h < l.kv_heads; ++h) {
        HWY_DYNAMIC_DISPATCH(round_to)(type, row + h * l.head_dim, place(h), l.head_dim);
    }
}

}  // namespace

void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    const KvAccess access(kv);
    const Matrix<const float> keys = k.as<const float>(), values = v.as<const float>();
    const Matrix<const int32_t> slots = rows.slots.as<const int32_t>(), cached = rows.cached.as<const int32_t>();
    const Matrix<const int32_t> ancestors = rows.ancestors.as<const int32_t>();
    const KvLayout& l = kv.layout;
    for (int64_t r = 0; r < keys.rows; ++r) {
        if (*slots.row(r) == kPadding) continue;
        const int64_t depth = *slots.row(r) - *cached.row(r);
        check(depth >= 0 && depth < kMaxRows, "kv_stage: a row stands at {} after {} cached slots", *slots.row(r),
              *cached.row(r));
        const int64_t mine = ancestors(r, depth);
        check(mine >= 0 && mine < kMaxRows, "kv_stage: staged row {} of {}", mine, kMaxRows);
        round_heads(keys.row(r), l, l.k_type, [&](int64_t h) { return access.staged_key(h, mine); });
        round_heads(values.row(r), l, l.v_type, [&](int64_t h) { return access.staged_value(h, mine); });
    }
}

namespace {

float element(DType type, const char* row, int64_t i) {
    if (type == DType::kF16) return static_cast<float>(reinterpret_cast<const f16*>(row)[i]);
    if (type == DType::kBF16) return static_cast<float>(reinterpret_cast<const bf16*>(row)[i]);
    return reinterpret_cast<const float*>(row)[i];
}

constexpr int64_t kPiece = 64;  // elements that are rounded at once
static_assert(kPiece % 2 == 0, "KeyBlocks moves pairs of bf16");

/// Rounds n elements into `to`; returns the largest difference from the old contents.
float replace(const float* from, char* to, DType type, int64_t n) {
    float was[kPiece], most = 0;
    for (int64_t i = 0; i < n; ++i) was[i] = element(type, to, i);
    HWY_DYNAMIC_DISPATCH(round_to)(type, from, to, n);
    for (int64_t i = 0; i < n; ++i) most = std::fmax(most, std::fabs(element(type, to, i) - was[i]));
    return most;
}

}  // namespace

void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows, const Tensor& change) {
    const KvAccess access(kv);
    const Matrix<const float> keys = k.as<const float>(), values = v.as<const float>();
    const Matrix<const int32_t> slots = rows.slots.as<const int32_t>();
    const Matrix<const int32_t> sequences = rows.sequences.as<const int32_t>();
    const KvLayout& l = kv.layout;
    for (int64_t r = 0; r < keys.rows; ++r) access.check_tile(*sequences.row(r), *slots.row(r), "kv_append");
    for_rows(keys.rows, keys.cols * 4, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const int64_t slot = *slots.row(r), i = slot % kTileTokens;
            char* tile = access.tile(*sequences.row(r), slot / kTileTokens);
            float* changed = change ? change.as<float>().row(r) : nullptr;
            for (int64_t h = 0; h < l.kv_heads; ++h) {
                const KeyBlocks to = access.keys(tile, h);
                const float *key = keys.row(r) + h * l.head_dim, *value = values.row(r) + h * l.head_dim;
                if (changed == nullptr)
                    HWY_DYNAMIC_DISPATCH(round_to)(l.v_type, value, access.value(tile, h, i), l.head_dim);
                for (int64_t first = 0; first < l.head_dim; first += kPiece) {
                    const int64_t n = std::min(kPiece, l.head_dim - first);
                    alignas(64) char piece[kPiece * sizeof(float)];
                    if (changed == nullptr) {
                        HWY_DYNAMIC_DISPATCH(round_to)(l.k_type, key + first, piece, n);
                    } else {
                        to.get(i, piece, first, n);
                        changed[0] = std::fmax(changed[0], replace(key + first, piece, l.k_type, n));
                        char* there = access.value(tile, h, i) + first * static_cast<int64_t>(size_of(l.v_type));
                        changed[1] = std::fmax(changed[1], replace(value + first, there, l.v_type, n));
                    }
                    to.put(i, piece, first, n);
                }
            }
        }
    });
}

namespace {

void keep_in_layer(const LayerKv& kv, const Matrix<const int32_t>& list) {
    const KvAccess access(kv);
    for (int64_t n = 0; n < list.rows; ++n) {
        const int64_t row = list(n, 0), slot = list(n, 1), sequence = list(n, 2), i = slot % kTileTokens;
        check(row >= 0 && row < kMaxRows, "kv_keep: staged row {} of {}", row, kMaxRows);
        access.check_tile(sequence, slot, "kv_keep");
        char* tile = access.tile(sequence, slot / kTileTokens);
        for (int64_t h = 0; h < kv.layout.kv_heads; ++h) {
            access.keys(tile, h).put(i, access.staged_key(h, row));
            std::memcpy(access.value(tile, h, i), access.staged_value(h, row), access.value_bytes());
        }
    }
}

}  // namespace

void kv_keep(std::span<const LayerKv> layers, const Tensor& kept) {
    for (const LayerKv& kv : layers) keep_in_layer(kv, kept.as<const int32_t>());
}

}  // namespace trireme
#endif  // HWY_ONCE
