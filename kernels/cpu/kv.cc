/// Writes keys and values to staged rows and to tiles, rounded to the cache's types.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quantised-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

void round_to(DType type, const float* from, void* to, int64_t n) {
    if (type == DType::kF16) return saturate_row(from, static_cast<f16*>(to), n);
    if (type == DType::kQ8_0) return quantise_row(from, static_cast<char*>(to), n);
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

constexpr int64_t kPiece = 64;  // elements that are rounded at once
static_assert(kPiece % kQuantBlock == 0, "KeyBlocks moves pairs of bf16, and whole blocks of q8_0");

/// Calls visit(first, n) for the pieces of a row.
template <class Visit>
void for_pieces(int64_t dim, const Visit& visit) {
    for (int64_t first = 0; first < dim; first += kPiece) visit(first, std::min(kPiece, dim - first));
}

/// Rounds the elements of `row` into a head's key or value, given as pieces: get(piece, first, n) and put(piece, first,
/// n) move n elements. Returns the largest difference from the old contents.
template <class Get, class Put>
float replace(const float* row, int64_t dim, DType type, const Get& get, const Put& put) {
    float most = 0;
    for_pieces(dim, [&](int64_t first, int64_t n) {
        alignas(64) char was[kPiece * sizeof(float)], now[kPiece * sizeof(float)];
        get(was, first, n);
        HWY_DYNAMIC_DISPATCH(round_to)(type, row + first, now, n);
        for (int64_t i = 0; i < n; ++i) {
            most = std::fmax(most, std::fabs(element(type, now, n, i) - element(type, was, n, i)));
        }
        put(now, first, n);
    });
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
                char* to_value = access.value(tile, h, i);
                const auto put_key = [&](const char* piece, int64_t first, int64_t n) { to.put(i, piece, first, n); };
                if (changed == nullptr) {
                    HWY_DYNAMIC_DISPATCH(round_to)(l.v_type, value, to_value, l.head_dim);
                    for_pieces(l.head_dim, [&](int64_t first, int64_t n) {
                        alignas(64) char piece[kPiece * sizeof(float)];
                        HWY_DYNAMIC_DISPATCH(round_to)(l.k_type, key + first, piece, n);
                        put_key(piece, first, n);
                    });
                    continue;
                }
                const auto get_key = [&](char* piece, int64_t first, int64_t n) { to.get(i, piece, first, n); };
                const auto get_value = [&](char* piece, int64_t first, int64_t n) {
                    row_piece(l.v_type, to_value, l.head_dim, first, n, piece);
                };
                const auto put_value = [&](const char* piece, int64_t first, int64_t n) {
                    put_piece(l.v_type, piece, first, n, to_value, l.head_dim);
                };
                changed[0] = std::fmax(changed[0], replace(key, l.head_dim, l.k_type, get_key, put_key));
                changed[1] = std::fmax(changed[1], replace(value, l.head_dim, l.v_type, get_value, put_value));
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
