#pragma once
/// HeavyMemory: the tensors in a HeavySet's device memory, and their sizes.

#include <cstdint>
#include <vector>

#include "kernels/slots.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/kv_readers.h"
#include "offload/evicting/wanted_tensors.h"

namespace trireme {

/// n: tokens of the context. A call is an attention over the slots of owners_together() owners. counted: the number of
/// layers whose attention counts for the tokens of the owner that they read.
struct HeavyMemory {
    SlotKv kv;                        // staged rows: the full cache's
    Tensor tiles;                     // u8: the tiles of all heads
    Tensor shares, kv_of_head;        // f32 [heads], i32 [heads of a call]
    Tensor queries, out;              // f32 [kMaxRows, counted * columns], [1, columns of a call]
    Tensor weights, tops, totals;     // a step: f32 [owners * heads, slots or more], [.., tiles], [.., 2]
    Tensor pooled;                    // f32 [owners, kv_heads, slots + 1]: these weights by KV head
    Tensor row_totals, sums;          // a prompt: f32 [kPrefillRows, heads, 2], [heads, n]
    Tensor zeros;                     // f32, of the larger size of sums and pooled
    Tensor prompt_weights, scores;    // f32 [places * kv_heads, n] (KvReaders::place), [kv_heads, n]
    Tensor keys, order;               // i64 [kv_heads, 2 n], i32 [kv_heads, slots]
    Tensor numbers;                   // i32 [kMaxRows]: 0, 1, ..
    Tensor slot, sequence, ancestor;  // i32 [1] twice, [1, kMaxRows]: RowsView of a step's row
    Tensor slot_before;               // i32 [1]: the slot before, if rows of any layer do not see themselves
    std::vector<Tensor> saved;        // copies of kept(), if a sequence may be truncated to its prompt; else empty

    static size_t bytes(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
    /// The number of owners of a call. `heads`: query heads of this rank.
    static int64_t owners_together(const KvShape& kv, int64_t heads);
    static int64_t counted(const EvictionShape& shape, const KvReaders& readers);
    /// Allocates the tensors in `device`, except kv's staged rows.
    void take(Arena<Space::kDevice>& device, const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);

    /// The attention that a prompt's tokens have received so far from an owner's readers: f32 [kv_heads, tokens].
    Tensor weights_of(int64_t place, int64_t tokens) const;
    /// The tensors that steps change.
    std::vector<const Tensor*> kept() const { return {&tiles, &kv.tokens, &kv.ranks, &kv.scores, &kv.counts}; }

  private:
    WantedTensors wants(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
};

}  // namespace trireme
