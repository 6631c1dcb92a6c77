#pragma once
/// Checks of operands that several operations share. Each fails with a message that names the operation, the operand,
/// what it is and what it must be.

#include "kernels/kernel_limits.h"
#include "kernels/kv.h"
#include "runtime/error.h"
#include "runtime/tensor.h"

namespace trireme {

inline void check_operand(const char* op, const char* operand, const Tensor& t, DType type, const Shape& shape) {
    check(t.dtype() == type && t.shape() == shape && (t || shape.elements() == 0), "{}: {} is {}{} {}, expected {} {}",
          op, operand, t ? "" : "null ", name_of(t.dtype()), t.shape(), name_of(type), shape);
}

inline void check_rank(const char* op, const char* operand, const Tensor& t, int rank) {
    check(t.shape().rank() == rank, "{}: {} has shape {}, expected {} dimensions", op, operand, t.shape(), rank);
}

inline void check_weight_type(const char* op, const char* operand, const Tensor& t) {
    check(t.dtype() == DType::kF32 || t.dtype() == DType::kF16 || t.dtype() == DType::kBF16,
          "{}: {} is {}, expected f32, f16 or bf16", op, operand, name_of(t.dtype()));
    check(static_cast<bool>(t), "{}: {} is null", op, operand);
}

inline void check_kv(const char* op, const LayerKv& kv) {
    const KvLayout& l = kv.layout;
    check(l.head_dim > 0 && l.head_dim % 8 == 0, "{}: head_dim {} is not a multiple of 8", op, l.head_dim);
    check(kv.tiles.dtype() == DType::kI64 && kv.tiles.shape().rank() == 2,
          "{}: tiles are {} {}, expected i64 [sequences, tiles]", op, name_of(kv.tiles.dtype()), kv.tiles.shape());
    for (const DType type : {l.k_type, l.v_type}) {
        check(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
                  (type == DType::kQ8_0 && quantises(l.head_dim)),
              "{}: KV is {} in heads of {}, expected f32, f16, bf16, or q8_0 in heads of a multiple of {} up to {}", op,
              name_of(type), l.head_dim, kQuantBlock, kMostQuantised);
    }
}

/// Checks the slots of single heads, and the operands of keys that are rotated as they are read.
inline void check_places(const char* op, const LayerKv& kv, Phase phase) {
    const Shape heads{kv.layout.kv_heads};
    if (kv.counts) {
        check_operand(op, "counts", kv.counts, DType::kI32, heads);
        check(phase == Phase::kDecode && kv.tiles.rows() == kv.layout.kv_heads && kv.first_tile == 0,
              "{}: tiles {} of single heads; want a row for each of {} heads, and a decode forward", op,
              kv.tiles.shape(), kv.layout.kv_heads);
    }
    if (kv.begins) check_operand(op, "begins", kv.begins, DType::kI32, heads);
    if (!kv.angles) return;
    check_operand(op, "angles", kv.angles, DType::kF32, Shape{kv.angles.rows(), kv.layout.head_dim});
    if (phase == Phase::kDecode) {
        check(static_cast<bool>(kv.counts), "{}: keys without rotation in a decode forward that has no slots", op);
        check_operand(op, "ranks", kv.ranks, DType::kI32, Shape{kv.layout.kv_heads, kv.ranks.cols()});
    }
}

}  // namespace trireme
