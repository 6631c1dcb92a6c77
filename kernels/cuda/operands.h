#pragma once
/// Operands of operations (tensors and views), converted to arguments of kernels.

#include <cmath>

#include "kernels/cuda/attention_rows.h"
#include "kernels/kernels.h"

namespace trireme::gpu {

/// The rows of a tensor whose elements are T.
template <class T>
Rows<T> rows_of(const Tensor& t) {
    return {static_cast<T*>(t.data()), t.stride()};
}

inline RoundedRows rounded_rows_of(const Tensor& t) {
    return {t.data(), t.stride(), t.dtype()};
}

/// visit(T()) with the element type that `type` names.
template <class Visit>
void with_type(DType type, const Visit& visit) {
    switch (type) {
        case DType::kF16:
            return visit(f16());
        case DType::kBF16:
            return visit(bf16());
        default:
            return visit(float());
    }
}

/// visit(T()) with the type of KV rows; q8_0() for kQ8_0.
template <class Visit>
void with_kv_type(DType type, const Visit& visit) {
    if (type == DType::kQ8_0) return visit(q8_0());
    with_type(type, visit);
}

/// A layer's KV, as kernels take it.
inline Kv kv_of(const LayerKv& kv) {
    const KvLayout& l = kv.layout;
    return {rows_of<const int64_t>(kv.tiles),
            kv.tiles.rows(),
            kv.first_tile,
            kv.tiles.cols(),
            l.kv_heads,
            l.head_dim,
            static_cast<char*>(kv.staged_k.data()),
            static_cast<char*>(kv.staged_v.data()),
            l.k_type,
            l.v_type,
            static_cast<int32_t>(row_bytes(l.k_type, l.head_dim)),
            static_cast<int32_t>(row_bytes(l.v_type, l.head_dim)),
            static_cast<bool>(kv.counts)};
}

/// The rows of an attention, and what their heads have of their own.
inline Seen seen_of(Phase phase, const Tensor& q, const LayerKv& kv, const RowsView& rows) {
    const bool prefill = phase == Phase::kPrefill;
    return {static_cast<const int32_t*>(rows.slots.data()),
            static_cast<const int32_t*>(rows.sequences.data()),
            static_cast<const int32_t*>(rows.cached.data()),
            {static_cast<const int32_t*>(rows.ancestors.data()), prefill ? 0 : rows.ancestors.stride()},
            q.rows(),
            rows.staged == 0 ? q.rows() : rows.staged,
            prefill,
            static_cast<const int32_t*>(kv.counts.data()),
            static_cast<const int32_t*>(prefill ? kv.begins.data() : nullptr),
            rows.window,
            rows.first_row};
}

/// Angles for keys that are rotated as they are read; none if keys are stored rotated.
inline Angles angles_of(Phase phase, const LayerKv& kv) {
    if (!kv.angles) return {};
    return {rows_of<const float>(kv.angles), kv.angles.rows(),
            phase == Phase::kDecode ? rows_of<const int32_t>(kv.ranks) : Rows<const int32_t>{}};
}

/// Factor of scores: log2(e) / sqrt(head_dim).
inline float score_scale(const LayerKv& kv) {
    return kLog2E / std::sqrt(static_cast<float>(kv.layout.head_dim));
}

}  // namespace trireme::gpu
