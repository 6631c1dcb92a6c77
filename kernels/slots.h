#pragma once
/// Bounded KV: every KV head keeps some of a text's tokens, in slots that are used again (H2O, arXiv 2306.14048, and
/// its family).

#include <cstdint>

#include "kernels/kv.h"
#include "kernels/slot_rule.h"

namespace trireme {

/// The KV of all owners of a level, whose heads keep tokens of their own. Its text is sequence 0.
struct SlotKv {
    KvLayout layout;            // kv_heads: how many there are; a tile holds one (LayerKv::counts)
    Tensor tiles;               // i64 [owners, kv_heads, tiles]
    Tensor staged_k, staged_v;  // [owners, kv_heads, kMaxRows, head_dim]
    Tensor tokens, ranks;       // i32 [owners, kv_heads, slots]: of the slots in use
    Tensor scores;              // f32 [owners, kv_heads, slots]
    Tensor counts;              // i32 [owners, kv_heads]: slots in use, the first ones
    Tensor budgets;             // i32 [owners, kv_heads]: at most so many are

    int64_t owners() const { return tiles.dim(0); }
    int64_t slots() const { return ranks.dim(2); }
};

/// What weights of several query heads become (Kernels::pool_weights).
struct WeightPool {
    HeadPool by = HeadPool::kAdd;
    float share = 1;     // times the share of each head: where several layers read an owner
    bool more = false;   // goes onto what is there: of layers before this one
    Tensor counts = {};  // i32 [owners, kv_heads], of a row that does not see itself: slots beyond these got nothing
};

}  // namespace trireme
