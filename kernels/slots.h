#pragma once
/// Slots of an evicting KV cache: every KV head retains some of a sequence's tokens, in slots that are reused (H2O,
/// arXiv 2306.14048, and its family).

#include <cstdint>

#include "kernels/kv.h"
#include "kernels/slot_rule.h"

namespace trireme {

/// Keys and values of all owners of a level, whose heads each retain tokens of their own. The sequence is number 0.
struct SlotKv {
    KvLayout layout;            // kv_heads: all heads of the rank; a tile holds one head (LayerKv::counts)
    Tensor tiles;               // i64 [owners, kv_heads, tiles]
    Tensor staged_k, staged_v;  // [owners, kv_heads, kMaxRows, columns], as LayerKv's
    Tensor tokens, ranks;       // i32 [owners, kv_heads, slots]: token and rank of each slot in use
    Tensor scores;              // f32 [owners, kv_heads, slots]
    Tensor counts;              // i32 [owners, kv_heads]: number of slots in use, the first ones
    Tensor budgets;             // i32 [owners, kv_heads]: most slots that may be in use

    int64_t owners() const { return tiles.dim(0); }
    int64_t slots() const { return ranks.dim(2); }
};

/// How Kernels::pool_weights combines the weights of several query heads.
struct WeightPool {
    HeadPool by = HeadPool::kAdd;
    float share = 1;     // factor of each head's share, for an owner that several layers read
    bool more = false;   // continues from what `out` has, of layers before this one
    Tensor counts = {};  // i32 [owners, kv_heads], for a row that does not see itself: later slots received nothing
};

}  // namespace trireme
