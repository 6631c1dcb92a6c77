#pragma once
/// EvictingMemory: the tensors in an EvictingCache's device memory, and their sizes.

#include <cstdint>
#include <vector>

#include "kernels/slots.h"
#include "offload/cache.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/kv_readers.h"
#include "offload/evicting/wanted_tensors.h"

namespace trireme {

/// Tensors that hold nothing between a forward, prefill or eviction and the next one, and constants. The caches of
/// several sequences share them. A call (SlotCall) puts an owner's retained and fresh tokens, its entries, into one
/// place of this memory. n: the most entries of a call. Owners whose entries are needed at the same time have different
/// places (KvReaders::place). For re-scoring, `turns` are rotations, `turned` are rotated queries, and `unused` is
/// attention's output. Tensors that a policy does not need are empty.
struct EvictingScratch {
    Tensor shares;                    // f32 [heads]: EvictingModel::shares
    Tensor angles;                    // f32 [positions, head_dim], if positions roll
    Tensor weights, tops, totals;     // one attention of a step: f32 [1, heads, slots or more], [.., tiles], [.., 2]
    Tensor entry_tiles, entry_table;  // u8, i64 [places, tiles]: the places' tiles and their addresses
    Tensor begins, order;             // i32 [places * kv_heads], [places * kv_heads, slots]: Kernels::slot_gather
    Tensor row_totals;                // f32 [kPrefillRows, heads, 2]: of a prefill's attention (AttentionReport)
    Tensor sums, zeros;               // f32 [heads, n]: attention that a layer gave to entries; its initial value
    Tensor entry_weights;             // f32 [places * kv_heads, n]: the sums of all readers, by KV head
    Tensor entry_scores, keys;        // f32 [kv_heads, n], i64 [kv_heads, 2 n]
    Tensor turns, turned, unused;     // f32 [observe, head_dim], [observe, heads * head_dim] twice
    Tensor slots_of_rows, sequences;  // i32 [n]: 0, 1, .., and zeros
    Tensor before_rows;               // i32 [n]: -1, 0, .., if rows of any layer do not see themselves
    Tensor all_keys, rows, largest;   // i64 [key_rows, n], i32 [all heads], i32 [owners]: Kernels::slot_share

    static size_t scratch_bytes(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
    /// Allocates the tensors in `device`.
    void take_scratch(Arena<Space::kDevice>& device, const KvShape& kv, const EvictionShape& shape,
                      const KvReaders& readers);

  private:
    WantedTensors scratch_wants(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
};

/// The tensors of one sequence, and the scratch.
struct EvictingMemory : EvictingScratch {
    SlotKv kv;
    Tensor tiles;                       // u8: the tiles of all heads, whose addresses kv.tiles has
    Tensor pooled;                      // f32 [owners, kv_heads, slots + 1]: a step's attention weights by KV head
    Tensor equal_budgets, equal_tiles;  // if heads share slots: initial values for a sequence
    std::vector<Tensor> saved;          // copies of kept(), if a sequence may be truncated to its prompt; else empty

    /// The number of slots of a head.
    static int64_t slots(const KvShape& kv, const EvictionShape& shape);
    /// The value of n.
    static int64_t entries(const KvShape& kv, const EvictionShape& shape);
    /// Bytes of one sequence's tensors, without the scratch.
    static size_t bytes(const KvShape& kv, const EvictionShape& shape);
    static size_t table_bytes(const KvShape& kv, const EvictionShape& s) {  // bytes of kv.tiles
        return static_cast<size_t>(kv.owner_layers * kv.layout.kv_heads * tiles_for(s.most_of_head(kv.owner_layers))) *
               sizeof(int64_t);
    }
    /// Allocates the sequence's tensors in `device`.
    void take(Arena<Space::kDevice>& device, const KvShape& kv, const EvictionShape& shape);

    /// A place's entries as attention reads them: keys and values of the owner that uses the place.
    LayerKv entries(int64_t place) const;
    /// i32 [kv_heads, slots]: the slot of each rank of a place's owner, set by Kernels::slot_gather.
    Tensor order_of(int64_t place) const { return order.slice_rows(place * kv.layout.kv_heads, kv.layout.kv_heads); }
    /// The attention that a place's entries have received so far: f32 [kv_heads, entries].
    Tensor weights_of(int64_t place, int64_t entries) const;

    /// The tensors that calls and steps change.
    std::vector<const Tensor*> kept() const {
        return {&tiles, &kv.tokens, &kv.ranks, &kv.scores, &kv.counts, &kv.budgets, &kv.tiles};
    }

  private:
    WantedTensors wants(const KvShape& kv, const EvictionShape& shape);
};

}  // namespace trireme
