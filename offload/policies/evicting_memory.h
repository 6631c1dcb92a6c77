#pragma once
/// The layout of a EvictingView's device memory.

#include <cstdint>
#include <vector>

#include "kernels/slots.h"
#include "offload/policies/eviction_shape.h"
#include "offload/policies/kv_readers.h"
#include "offload/policies/wanted_tensors.h"
#include "offload/view.h"

namespace trireme {

/// n: the most entries of a call. Owners whose entries are needed at the same time have different places
/// (KvReaders::place). Tensors that a policy does not need are empty.
struct EvictingMemory {
    SlotKv kv;
    Tensor tiles;                       // u8: the tiles of all heads
    Tensor shares;                      // f32 [heads]
    Tensor angles;                      // f32 [positions, head_dim], if positions roll
    Tensor weights, tops, totals;       // one attention of a step: f32 [1, heads, slots or more], [.., tiles], [.., 2]
    Tensor pooled;                      // f32 [owners, kv_heads, slots + 1]
    Tensor entry_tiles, entry_table;    // u8, i64 [places, tiles]
    Tensor begins, order;               // i32 [places * kv_heads], [places * kv_heads, slots]
    Tensor row_totals;                  // f32 [kPrefillRows, heads, 2]
    Tensor sums, zeros;                 // f32 [heads, n]
    Tensor entry_weights;               // f32 [places * kv_heads, n]
    Tensor entry_scores, keys;          // f32 [kv_heads, n], i64 [kv_heads, 2 n]
    Tensor turns, turned, unused;       // f32 [observe, head_dim], [observe, heads * head_dim] twice
    Tensor slots_of_rows, sequences;    // i32 [n]: 0, 1, .., and zeros
    Tensor before_rows;                 // i32 [n]: -1, 0, .., if rows of any layer do not see themselves
    Tensor all_keys, rows, largest;     // i64 [key_rows, n], i32 [all heads], i32 [owners]
    Tensor equal_budgets, equal_tiles;  // if heads share slots: initial values for a sequence
    std::vector<Tensor> saved;          // copies of kept(), if a sequence may be truncated to its prompt; else empty

    /// The number of slots of a head; the value of n.
    static int64_t slots(const KvShape& kv, const EvictionShape& shape);
    static int64_t entries(const KvShape& kv, const EvictionShape& shape);
    static size_t bytes(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
    static size_t table_bytes(const KvShape& kv, const EvictionShape& s) {  // bytes of kv.tiles
        return static_cast<size_t>(kv.owner_layers * kv.layout.kv_heads * tiles_for(s.most_of_head(kv.owner_layers))) *
               sizeof(int64_t);
    }
    void take(Arena<Space::kDevice>& device, const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);

    /// A place's entries: an owner's prompt keys and values as attention reads them; order_of(): each rank's slot.
    LayerKv entries(int64_t place) const;
    Tensor order_of(int64_t place) const { return order.slice_rows(place * kv.layout.kv_heads, kv.layout.kv_heads); }
    /// The attention that a place's entries have received so far: f32 [kv_heads, entries].
    Tensor weights_of(int64_t place, int64_t entries) const;

    /// The tensors that calls and steps change.
    std::vector<const Tensor*> kept() const {
        return {&tiles, &kv.tokens, &kv.ranks, &kv.scores, &kv.counts, &kv.budgets, &kv.tiles};
    }

  private:
    WantedTensors wants(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
};

}  // namespace trireme
