#pragma once
/// Kernels: the interface of all operations of a forward. An object is bound to one stream; calls enqueue and return.
///
/// Activations are f32 rows, strided where a shape says [rows, n]; weights are f32, f16 or bf16, row-major [out, in].
/// Sums are f32. With bf16 weights the matmul's input is rounded to bf16; with f16 weights it remains f32 on the CPU.
/// Decode phase (at most kMaxRows rows): a row has the same bits alone and among other rows, for any thread count.
/// Prefill phase: batches of a fixed number of rows, same bits for any thread count. On the CPU a prefill row also has
/// the same bits alone. On a GPU a library multiplies large batches, and may add in another order.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/chunks.h"
#include "kernels/distribution.h"
#include "kernels/kv.h"
#include "kernels/sampling.h"
#include "kernels/slots.h"
#include "kernels/weight_matrix.h"
#include "runtime/device.h"
#include "runtime/registry.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

/// What a Kernels object computes: decode forwards of at most kMaxRows rows, or prefill batches.
enum class Phase { kDecode, kPrefill };

/// Largest shapes that a Kernels object will see. Its constructor allocates all scratch.
struct KernelLimits {
    int64_t max_rows = 0;  // kMaxRows for decode, kPrefillRows for prefill
    int64_t max_k = 0;     // longest matmul input row
    int64_t max_n = 0;     // most matmul output columns
    int64_t heads = 0;     // query heads of this rank
    int64_t head_dim = 0;
    int64_t vocab = 0;    // 0: sample() and accept() are not used
    bool blocks = false;  // weights may be in blocks
};

/// Most elements of a row that is rotated or written to the KV cache; kernels count them in 32 bits.
inline constexpr int64_t kMostRowElements = int64_t{1} << 30;

/// Number of rows of logits that Kernels::sample reads.
inline int64_t sampled_rows(const Tensor& ids, const Tensor& distributions, const Tensor& ends) {
    return ends ? ends.rows() : ids ? ids.rows() : distributions.rows();
}

/// Errors: Exit::kInternal, unless an operation names another. Types and shapes are checked in the call. Contents (ids,
/// slots, tiles) are checked when the operation runs: the stream reports such an error when it is synchronized.
class Kernels {
  public:
    virtual ~Kernels() = default;

    /// out[r] = table[ids[r]].  out f32 [rows, dim], table [vocab, dim], ids i32 [rows], each in [0, vocab).
    /// Blocks: rows of one type, no columns skipped; values are not rounded.
    void embed(const Tensor& out, const WeightMatrix& table, const Tensor& ids);
    /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  out, x f32 [rows, groups * n] (may be the same), weight f32
    /// [n]: each group of n columns has a mean of its own (QK norm: a head is a group).
    void rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps);
    /// out = x w^T.  out f32 [rows, n], x f32 [rows, k], w [n, k]: plain and contiguous, or blocks that the
    /// backend multiplies(); k = 0 gives zeros. out and x do not overlap.
    void matmul(const Tensor& out, const Tensor& x, const WeightMatrix& w);
    /// Rotates pairs (i, i + head_dim/2) of every head, in place.  x f32 [rows, heads * head_dim];
    /// cos_sin f32 [rows, head_dim]: cosines of the pairs, then sines.
    void rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim);
    /// Decode: rounds k, v f32 [rows, kv_heads * head_dim] into staged rows. The staged row of row r is its last
    /// ancestor.
    void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows);
    /// Prefill: rounds k, v of consecutive rows into their tiles, at rows.slots. Optional `change` f32 [rows, 2] is
    /// raised to the largest difference between old and new elements of the row's key, and of its value.
    void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                   const Tensor& change = {});
    /// Copies staged row kept[i, 0] to slot kept[i, 1] of sequence kept[i, 2], in every layer.  kept i32 [n, 3]. All
    /// layers have one layout, and tile tables of one shape. `layers` must not change until the operation is over.
    void kv_keep(std::span<const LayerKv> layers, const Tensor& kept);
    /// out[r] = sum_i softmax_i(q[r] . k_i / sqrt(head_dim)) v_i, for the keys i that RowsView gives; query head h
    /// reads KV head kv_of_head[h].  out, q f32 [rows, heads * head_dim]; kv_of_head i32 [heads], non-decreasing.
    /// Each tile of 256 slots gives (max, sum, accumulator); these are merged in tile order.
    ///
    /// Decode rows may be attended in parts, as tiles arrive. The parts of a row follow each other from tile 0 on, each
    /// with a table of its own tiles. Between them this object may run only gather_chunks and the parts of other rows.
    /// RowsView::first_row identifies a row. The part that holds a row's last slot writes its result. Rows of several
    /// sequences with the same first tiles may be attended there as rows of one sequence. The bits do not depend on the
    /// parts. With `report` all tiles are attended in one part, and the outputs that it names are written.
    void attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                   const RowsView& rows, const TileRange& part = {}, const AttentionReport& report = {});
    /// out = silu(gate) * up.  gate_up f32 [rows, 2n]: gate in the first n columns; out f32 [rows, n].
    void swiglu(const Tensor& out, const Tensor& gate_up);
    /// x += y.  x f32 [rows, n]; y f32 [rows, n], or [1, n], which is added to every row (a bias).
    void add(const Tensor& x, const Tensor& y);
    /// out[i] = x[rows[i]].  f32; rows i32 [n].
    void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows);
    /// Draws a token from each row of logits (kernels/sampling.h): ids[r] is the token that uniform r selects.  ids i32
    /// [rows]; logits f32 [parts, rows or more, cols] contiguous, of which the first rows are read, id = part * cols +
    /// column, below `vocab`; uniforms i64 [rows], times 2^53. The stream fails with Exit::kData on a NaN or without a
    /// finite maximum.
    /// Optional output i64 [rows, kRowDistributionWords]: the distribution of each row (RowDistribution). Without `ids`
    /// and `uniforms`, nothing is drawn. With `ends`, i32 [rows], row r draws siblings: ids [ends[r - 1], ends[r]) of
    /// i32 [n], n at most kMaxRows; uniforms i64 [n]. Siblings are drawn one by one, with the weights of earlier
    /// siblings set to zero. A rule without a scale takes the largest logits in order. An id is -1 if no weight is
    /// left.
    void sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                const SamplingRule& rule, const Tensor& distributions = {}, const Tensor& ends = {});
    /// Accepts or rejects proposed tokens, and samples the token that follows (kernels/acceptance.h).  proposals i64
    /// [1 + n, kProposalWords] (Proposal): the first represents the sequence's last token; parents come before
    /// children. The verifier's logits f32 [parts, rows or more, cols] and distributions i64 [rows,
    /// kRowDistributionWords]: the last 1 + n rows belong to the proposals, in the same order. out i32 [2 + n]: the
    /// number of accepted tokens; the token that follows them; the indices of the accepted tokens, in order.
    void accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
                int64_t vocab);
    /// means[h, c] = the mean key of chunk c of KV head h, rounded to the keys' type, for every chunk of these tiles of
    /// the sequence. means [kv_heads, chunks, head_dim] contiguous; a chunk has `chunk` tokens, a divisor of
    /// kTileTokens.
    void chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles, int64_t chunk);
    /// Picks chunks by a query: KV head h picks the first candidate, and the candidates with the largest sum of q .
    /// means[h, c] over the head's queries, the earlier one if sums are equal. places[h, c] = index of chunk c among
    /// the picked chunks, in order, or kNotPicked.  places i32 [kv_heads, chunks], means as above; keys i64
    /// [kv_heads, chunks] is scratch; q f32 [1, heads * head_dim]; pick i32 [kChunkPickWords] (ChunkPick).
    void choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                       const Tensor& kv_of_head, const Tensor& pick);
    /// Copies chunks into consecutive slots of `to`: the picked candidates in order, then all chunks after the
    /// candidates. Both are sequence 0. Only chunks in tiles `part` of `from`, which must be resident, are copied.
    void gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick, int64_t chunk,
                       const TileRange& part = {});

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
    Kernels(Phase phase, const KernelLimits& limits) : phase_(phase), limits_(limits) {}
    Phase phase() const { return phase_; }
    const KernelLimits& limits() const { return limits_; }

  private:
    virtual void do_embed(const Tensor& out, const Tensor& table, const Tensor& ids) = 0;
    virtual void do_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) = 0;
    virtual void do_matmul(const Tensor& out, const Tensor& x, const Tensor& w) = 0;
    /// Errors: Exit::kInternal where the backend does not multiply blocks.
    virtual void do_matmul_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w) = 0;
    virtual void do_embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) = 0;
    virtual void do_rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) = 0;
    virtual void do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) = 0;
    virtual void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                              const Tensor& change) = 0;
    virtual void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) = 0;
    virtual void do_attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                              const RowsView& rows, const TileRange& part, const AttentionReport& report) = 0;
    virtual void do_swiglu(const Tensor& out, const Tensor& gate_up) = 0;
    virtual void do_add(const Tensor& x, const Tensor& y) = 0;
    virtual void do_gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) = 0;
    virtual void do_sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                           const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) = 0;
    virtual void do_accept(const Tensor& out, const Tensor& logits, const Tensor& distributions,
                           const Tensor& proposals, int64_t vocab) = 0;
    virtual void do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                                int64_t chunk) = 0;
    virtual void do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                                  const Tensor& kv_of_head, const Tensor& pick) = 0;
    virtual void do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                                  int64_t chunk, const TileRange& part) = 0;
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

/// Factories of Kernels for registered devices (runtime/device.h), by backend name.
using KernelsMaker = std::unique_ptr<Kernels> (*)(Device& device, Stream& stream, Phase phase,
                                                  const KernelLimits& limits);
Registry<KernelsMaker>& kernels_makers();

/// Bytes of device memory that Kernels allocate: "cpu" with `threads` threads, or a GPU. Needs no device.
size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads);

/// Whether the backend, on this machine, multiplies weights in blocks by such activations.
bool multiplies(std::string_view backend, ActivationType as);
/// The fastest of them. `interleaved`: some weights can be (can_interleave()).
ActivationType fastest_activations(std::string_view backend, bool interleaved = true);

/// Whether bf16 products are faster than f16 products, as on CPUs with dot products of bf16 pairs.
bool multiplies_bf16_faster(std::string_view backend);

/// Makes the Kernels of the device's backend. `device` must outlive the object.
std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme
