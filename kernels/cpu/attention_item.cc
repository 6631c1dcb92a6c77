/// Decode attention inside one tile: scores, softmax, values.
///
/// Why the bits do not depend on the neighbours: a score is a dot product of its own (dot-inl.h); the sum of a tile
/// runs in lanes fixed by position; the accumulator takes positions one by one in order. Where a key lies (tile or
/// staged row), how many rows share it and whether it was widened into scratch first changes none of that.

#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_item.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/softmax-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_ATTENTION_ITEM_ONCE
#define TRIREME_KERNELS_CPU_ATTENTION_ITEM_ONCE
namespace trireme {

inline constexpr int64_t kBlock = 64;   // positions handled at a time
inline constexpr int64_t kChunk = 48;   // query vectors whose scores are kept at once: 48 KiB
inline constexpr int64_t kQueries = 3;  // query vectors of a register tile, with 4 keys or 4 vectors of a value

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// `count` rows of T, widened and padded with zeros to dim_padded.
template <class T>
void widen_rows(const T* const* from, int64_t count, int64_t dim, float* to, int64_t dim_padded) {
    for (int64_t i = 0; i < count; ++i) {
        float* row = to + i * dim_padded;
        map_row(from[i], row, dim, [](Vf v, int64_t) HWY_ATTR { return v; });
        for (int64_t j = dim; j < dim_padded; ++j) row[j] = 0;
    }
}

/// Widening pays when several register tiles read the rows, and is needed when a head is not made of whole vectors.
HWY_INLINE bool widen_first(DType type, int64_t queries, int64_t dim) {
    return dim % kLanes != 0 || (type != DType::kF32 && queries > kQueries);
}

template <int R, class T>
void score_group(const T* const* keys, int64_t count, const float* q, int64_t q_stride, int64_t dim, float* scores,
                 Ahead& ahead) {
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) dot_tile<4, R>(keys + i, q, q_stride, dim, scores + i, kTileTokens, ahead);
    for (; i < count; ++i) dot_tile<1, R>(keys + i, q, q_stride, dim, scores + i, kTileTokens, ahead);
}

template <class T>
void score_block(const T* const* keys, int64_t count, const float* q, int64_t q_stride, int64_t queries, int64_t dim,
                 float* scores, Ahead& ahead) {
    for (int64_t i = 0; i < queries; i += kQueries) {
        const float* qi = q + i * q_stride;
        float* si = scores + i * kTileTokens;
        if (queries - i >= 3) {
            score_group<3>(keys, count, qi, q_stride, dim, si, ahead);
        } else if (queries - i == 2) {
            score_group<2>(keys, count, qi, q_stride, dim, si, ahead);
        } else {
            score_group<1>(keys, count, qi, q_stride, dim, si, ahead);
        }
    }
}

/// acc[r] += sum_i p[r][i] values[i], R accumulators, DV vectors of each, positions in order.
template <int R, int DV, class T>
HWY_INLINE void value_tile(const T* const* values, int64_t count, int64_t offset, const float* p, float* acc,
                           int64_t acc_stride, Ahead& ahead) {
    const F d;
    Vf a[R][DV];
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < DV; ++j) a[r][j] = hn::LoadU(d, acc + r * acc_stride + offset + j * kLanes);
    for (int64_t i = 0; i < count; ++i) {
        ahead.group();
        Vf w[R];
        for (int r = 0; r < R; ++r) w[r] = hn::Set(d, p[r * kTileTokens + i]);
        for (int j = 0; j < DV; ++j) {
            const Vf v = load(d, values[i] + offset + j * kLanes);
            for (int r = 0; r < R; ++r) a[r][j] = hn::MulAdd(w[r], v, a[r][j]);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < DV; ++j) hn::StoreU(a[r][j], d, acc + r * acc_stride + offset + j * kLanes);
}

template <int R, class T>
void value_group(const T* const* values, int64_t count, int64_t dim, const float* p, float* acc, int64_t acc_stride,
                 Ahead& ahead) {
    int64_t i = 0;
    for (; i + 4 * kLanes <= dim; i += 4 * kLanes) value_tile<R, 4>(values, count, i, p, acc, acc_stride, ahead);
    for (; i < dim; i += kLanes) value_tile<R, 1>(values, count, i, p, acc, acc_stride, ahead);
}

template <class T>
void value_block(const T* const* values, int64_t count, int64_t queries, int64_t dim, const float* p, float* acc,
                 int64_t acc_stride, Ahead& ahead) {
    for (int64_t i = 0; i < queries; i += kQueries) {
        const float* pi = p + i * kTileTokens;
        float* ai = acc + i * acc_stride;
        if (queries - i >= 3) {
            value_group<3>(values, count, dim, pi, ai, acc_stride, ahead);
        } else if (queries - i == 2) {
            value_group<2>(values, count, dim, pi, ai, acc_stride, ahead);
        } else {
            value_group<1>(values, count, dim, pi, ai, acc_stride, ahead);
        }
    }
}

/// visit(rows of T, how many, first slot, first query, queries) for everything the queries [q0, q1) attend in this
/// tile: the shared slots for all of them at once, then what each row has of its own.
template <class T, class Visit>
HWY_INLINE void walk(const DecodeItem& it, const T* tile, const T* staged, int64_t q0, int64_t q1, const Visit& visit) {
    const int64_t dim = it.layout.head_dim;
    const T* at[kBlock];
    for (int64_t b = 0; b < it.shared; b += kBlock) {
        const int64_t n = std::min(kBlock, it.shared - b);
        for (int64_t i = 0; i < n; ++i) at[i] = tile + (b + i) * dim;
        visit(at, n, b, q0, q1 - q0);
    }
    for (int64_t r = q0 / it.group; r * it.group < q1; ++r) {
        const int64_t begin = std::max(q0, r * it.group), end = std::min(q1, (r + 1) * it.group);
        const int64_t slots = std::min(kTileTokens, it.positions[r] + 1 - it.first);
        const int32_t* ancestors = it.ancestors + r * it.ancestors_stride;
        for (int64_t b = it.shared; b < slots; b += kBlock) {
            const int64_t n = std::min(kBlock, slots - b);
            for (int64_t i = 0; i < n; ++i) {
                const int64_t beyond = it.first + b + i - it.committed[r];
                at[i] = beyond < 0 ? tile + (b + i) * dim : staged + ancestors[beyond] * dim;
            }
            visit(at, n, b, begin, end - begin);
        }
    }
}

/// Spreads `bytes` over `calls` calls of Ahead::group.
HWY_INLINE Ahead spread(const char* from, int64_t bytes, int64_t calls) {
    if (from == nullptr || calls <= 0) return {};
    const int64_t step = bytes / calls + 1;
    return {from, step, (step + 63) / 64};
}

template <class T>
void score_keys(const DecodeItem& it, DType type, int64_t q0, int64_t q1, float* scores, float* block, Ahead ahead) {
    const int64_t dim = it.layout.head_dim, padded = it.dim_padded;
    const T* tile = reinterpret_cast<const T*>(it.view->key(it.tile, it.head, 0));
    const T* staged = reinterpret_cast<const T*>(it.view->staged_key(it.head, 0));
    Ahead none;
    walk(it, tile, staged, q0, q1,
         [&](const T* const* at, int64_t n, int64_t slot, int64_t q, int64_t queries) HWY_ATTR {
             const float* qs = it.q + q * padded;
             float* s = scores + (q - q0) * kTileTokens + slot;
             Ahead& fetch = slot < it.shared ? ahead : none;
             if (widen_first(type, queries, dim)) {
                 const float* rows[kBlock];
                 widen_rows(at, n, dim, block, padded);
                 for (int64_t i = 0; i < n; ++i) rows[i] = block + i * padded;
                 score_block(rows, n, qs, padded, queries, round_up_lanes(dim), s, fetch);
             } else {
                 score_block(at, n, qs, padded, queries, dim, s, fetch);
             }
         });
}

template <class T>
void add_values(const DecodeItem& it, DType type, int64_t q0, int64_t q1, const float* p, float* block, Ahead ahead) {
    const int64_t dim = it.layout.head_dim, padded = it.dim_padded, record = kRecordHead + padded;
    const T* tile = reinterpret_cast<const T*>(it.view->value(it.tile, it.head, 0));
    const T* staged = reinterpret_cast<const T*>(it.view->staged_value(it.head, 0));
    Ahead none;
    walk(it, tile, staged, q0, q1,
         [&](const T* const* at, int64_t n, int64_t slot, int64_t q, int64_t queries) HWY_ATTR {
             const float* ps = p + (q - q0) * kTileTokens + slot;
             float* acc = it.records + q * record + kRecordHead;
             Ahead& fetch = slot < it.shared ? ahead : none;
             if (widen_first(type, queries, dim)) {
                 const float* rows[kBlock];
                 widen_rows(at, n, dim, block, padded);
                 for (int64_t i = 0; i < n; ++i) rows[i] = block + i * padded;
                 value_block(rows, n, queries, round_up_lanes(dim), ps, acc, record, fetch);
             } else {
                 value_block(at, n, queries, dim, ps, acc, record, fetch);
             }
         });
}

/// Scores, softmax and values of one item. scratch: kChunk * 256 floats, then kBlock * dim_padded.
void attend_item_body(const DecodeItem& it, float* scratch) {
    const int64_t record = kRecordHead + it.dim_padded, queries = it.rows * it.group;
    float *scores = scratch, *block = scratch + kChunk * kTileTokens;
    for (int64_t q0 = 0; q0 < queries; q0 += kChunk) {
        const int64_t q1 = std::min(q0 + kChunk, queries), tiles = (q1 - q0 + kQueries - 1) / kQueries;
        const int64_t dim = round_up_lanes(it.layout.head_dim);

        // While keys are multiplied the values travel, and while values are added the next item's keys.
        const bool last = q1 == queries;
        const auto k_type = it.layout.k_type, v_type = it.layout.v_type;
        const int64_t k_line =
            widen_first(k_type, q1 - q0, it.layout.head_dim) ? 16 : 64 / static_cast<int64_t>(size_of(k_type));
        const int64_t v_bytes = it.shared * it.layout.head_dim * static_cast<int64_t>(size_of(v_type));
        const int64_t k_bytes = it.shared * it.layout.head_dim * static_cast<int64_t>(size_of(k_type));
        const Ahead values_ahead = spread(q0 == 0 ? it.view->value(it.tile, it.head, 0) : nullptr, v_bytes,
                                          it.shared / 4 * tiles * (dim / std::max(k_line, kLanes)));
        const Ahead keys_ahead =
            spread(last ? it.next : nullptr, k_bytes, it.shared * tiles * ((dim + 4 * kLanes - 1) / (4 * kLanes)));
        switch (k_type) {
            case DType::kF16:
                score_keys<f16>(it, k_type, q0, q1, scores, block, values_ahead);
                break;
            case DType::kBF16:
                score_keys<bf16>(it, k_type, q0, q1, scores, block, values_ahead);
                break;
            default:
                score_keys<float>(it, k_type, q0, q1, scores, block, values_ahead);
                break;
        }
        for (int64_t q = q0; q < q1; ++q) {
            const int64_t slots = std::min(kTileTokens, it.positions[q / it.group] + 1 - it.first);
            if (slots <= 0) continue;  // the row ends before this tile
            float* rec = it.records + q * record;
            softmax_row(scores + (q - q0) * kTileTokens, slots, rec[0], rec[1]);
            std::fill(rec + kRecordHead, rec + record, 0.0f);
        }
        switch (v_type) {
            case DType::kF16:
                add_values<f16>(it, v_type, q0, q1, scores, block, keys_ahead);
                break;
            case DType::kBF16:
                add_values<bf16>(it, v_type, q0, q1, scores, block, keys_ahead);
                break;
            default:
                add_values<float>(it, v_type, q0, q1, scores, block, keys_ahead);
                break;
        }
    }
}

/// running = running + partial, both records.
void merge_record_body(float* running, const float* partial, int64_t dim_padded) {
    const F d;
    const float top = std::max(running[0], partial[0]);
    const Vf old = exp(d, hn::Set(d, running[0] - top)), fresh = exp(d, hn::Set(d, partial[0] - top));
    running[0] = top;
    running[1] = hn::GetLane(hn::MulAdd(hn::Set(d, partial[1]), fresh, hn::Mul(hn::Set(d, running[1]), old)));
    for (int64_t i = kRecordHead; i < kRecordHead + dim_padded; i += kLanes) {
        const Vf a = hn::Mul(hn::LoadU(d, running + i), old);
        hn::StoreU(hn::MulAdd(hn::LoadU(d, partial + i), fresh, a), d, running + i);
    }
}

void finish_record_body(const float* record, float* out, int64_t dim) {
    const F d;
    const Vf sum = hn::Set(d, record[1]);
    map_row(record + kRecordHead, out, dim, [&](Vf v, int64_t) HWY_ATTR { return hn::Div(v, sum); });
}

void scale_query_body(const float* q, float scale, float* to, int64_t dim, int64_t dim_padded) {
    const F d;
    map_row(q, to, dim, [&](Vf v, int64_t) HWY_ATTR { return hn::Mul(v, hn::Set(d, scale)); });
    for (int64_t i = dim; i < dim_padded; ++i) to[i] = 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(attend_item_body);
HWY_EXPORT(merge_record_body);
HWY_EXPORT(finish_record_body);
HWY_EXPORT(scale_query_body);

int64_t attend_item_floats(int64_t dim_padded) {
    return kChunk * kTileTokens + kBlock * dim_padded;
}
void attend_item(const DecodeItem& item, float* scratch) {
    HWY_DYNAMIC_DISPATCH(attend_item_body)(item, scratch);
}
void merge_record(float* running, const float* partial, int64_t dim_padded) {
    HWY_DYNAMIC_DISPATCH(merge_record_body)(running, partial, dim_padded);
}
void finish_record(const float* record, float* out, int64_t dim) {
    HWY_DYNAMIC_DISPATCH(finish_record_body)(record, out, dim);
}
void scale_query(const float* q, float scale, float* to, int64_t dim, int64_t dim_padded) {
    HWY_DYNAMIC_DISPATCH(scale_query_body)(q, scale, to, dim, dim_padded);
}

}  // namespace trireme
#endif  // HWY_ONCE
