#pragma once
/// EvictionKernels: score tokens, and retain some of them in slots. kernels.h says what all operations have in common.

#include <cstdint>

#include "kernels/kernel_limits.h"
#include "kernels/kv.h"
#include "kernels/slots.h"
#include "runtime/tensor.h"

namespace trireme {

class EvictionKernels {
  public:
    virtual ~EvictionKernels() = default;

    /// Prefill: sums[h, slot] += the attention weight that query head h gives to the slot, over all these rows.  sums
    /// f32 [heads, slots]; q, kv, kv_of_head, rows as attention took them, or only some of the last rows; totals f32
    /// [rows, heads, 2]: attention's report for these rows. Rows are added one by one, in an order that does not depend
    /// on threads. A row that sees no slot adds nothing.
    void key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                     const Tensor& kv_of_head, const RowsView& rows);
    /// Prefill: weights[h, slot] = |v| times the attention weight that query head h's next tokens are expected to give
    /// to the slot: the softmax over slots of m + s / 2, with the mean m and the variance s of the rows' scores
    /// (Expected Attention, arXiv 2510.00636). All slots of sequence 0 are seen, from a head's first one on
    /// (LayerKv::begins); 0 before it.  weights f32 [heads, slots]; norms f32 [kv_heads, slots] is scratch; q f32
    /// [rows, heads * head_dim], any number of rows.
    void expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                          const Tensor& kv_of_head);
    /// out[o, k, i] = the attention weight of slot i of owner o, from the query heads that read KV head k: their sum or
    /// maximum, each multiplied by shares[head] (WeightPool).  out f32 [owners, kv_heads, n]; weights f32
    /// [owners, heads, n or more]; tops f32 [owners, heads, tiles] and totals f32 [owners, heads, 2] as attention
    /// reports them for a row; without these, `weights` are attention weights. kv_of_head i32, shares f32 [heads].
    void pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                      const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool);
    /// Ends a decode step of one row, token `token` of the sequence: every head of every owner copies staged row 0 into
    /// a slot. This is a new slot until the head's budget is reached, then the slot of the token with the lowest
    /// priority, which is evicted.  weights f32 [owners, kv_heads, slots + 1]: the slots in use, then the staged row;
    /// none if the rule does not use them (SlotRule::counts_all).
    void slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token);
    /// Copies the tokens that an owner's heads retain, by rank, to entries of `to` (SlotCall). Sets to.begins, and
    /// order, i32 [kv_heads, slots], to the slot of each rank.
    void slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call);
    /// scores[h, e] = score of entry e of head h after the call.  scores f32 [kv_heads, entries]; from: keys of the
    /// entries; order as slot_gather left it; weights f32 [kv_heads, entries], or none if the rule does not use them,
    /// or if it adds to sums and there are no fresh entries.
    void slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                     const Tensor& weights, const SlotRule& rule, const SlotCall& call);
    /// keys[h, e] = priority of entry e of head h (worth()), different for all entries of a head; 0: no such entry.
    /// keys i64 [kv_heads, entries]; order and scores as above.
    void slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                   const SlotRule& rule, const SlotCall& call);
    /// Sets the budgets of an owner's heads for this call, as heads of all ranks share them, and assigns its tiles
    /// again. slot_choose must follow, with SlotCall::retiled. Of equal keys the lower head's comes first.  tiles u8
    /// [tiles, bytes of a head's tile]: the owner's; keys i64 [.., entries]: of all the model's heads, in part cleared;
    /// rows i32 [heads]: each head's row in `keys`; largest i32 [owners]: receives the largest budget of all ranks.
    void slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                    const Tensor& largest, const SlotShare& share, const SlotRule& rule, const SlotCall& call);
    /// Evicts after a call: each head retains its last entries and those of the highest priority, within its budget.
    /// Retained tokens that had a slot keep it; fresh ones are copied from `from` to free slots.  keys i64
    /// [kv_heads, 2 * entries] is scratch.
    void slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                     const Tensor& keys, const SlotRule& rule, const SlotCall& call);

  protected:
    EvictionKernels(Phase phase, const KernelLimits& limits) : phase_(phase), limits_(limits) {}

  private:
    virtual void do_key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                                const Tensor& kv_of_head, const RowsView& rows) = 0;
    virtual void do_expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                                     const Tensor& kv_of_head) = 0;
    virtual void do_pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                                 const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) = 0;
    virtual void do_slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) = 0;
    virtual void do_slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) = 0;
    virtual void do_slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                                const Tensor& weights, const SlotRule& rule, const SlotCall& call) = 0;
    virtual void do_slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                              const SlotRule& rule, const SlotCall& call) = 0;
    virtual void do_slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                               const Tensor& largest, const SlotShare& share, const SlotRule& rule,
                               const SlotCall& call) = 0;
    virtual void do_slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                                const Tensor& keys, const SlotRule& rule, const SlotCall& call) = 0;

    Phase phase_;
    KernelLimits limits_;
};

}  // namespace trireme
