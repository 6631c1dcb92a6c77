#pragma once
/// Every operation, declared once. A Kernels object is bound to one stream; calls enqueue and return.
///
/// Activations are f32 rows, strided where a shape says [rows, n]; weights are f32, f16 or bf16, row-major [out, in].
/// Sums are f32. With bf16 weights the matmul's input is rounded to bf16; with f16 weights it stays f32 on the CPU.
/// Decode phase (at most kMaxRows rows): a row gets the same bits whether it is computed alone or among others,
/// whatever the thread count. Prefill phase: batches of a fixed number of rows, same bits for any thread count. (The
/// CPU gives a row of a prefill the same bits alone, too; on a GPU a library multiplies large batches, and may do it in
/// another order there.)

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/chunks.h"
#include "kernels/kv.h"
#include "kernels/law.h"
#include "kernels/sampling.h"
#include "kernels/slots.h"
#include "runtime/device.h"
#include "runtime/registry.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

enum class Phase { kDecode, kPrefill };

/// Largest shapes the object will see: its scratch is allocated here, never later.
struct KernelLimits {
    int64_t max_rows = 0;  // kMaxRows for decode, kPrefillRows for prefill
    int64_t max_k = 0;     // longest matmul input row
    int64_t max_n = 0;     // most matmul output columns
    int64_t heads = 0;     // query heads of this rank
    int64_t head_dim = 0;
    int64_t vocab = 0;  // ids to draw from; 0: never
};

/// Elements of a row that is rotated or goes into the KV: they are counted in 32 bits.
inline constexpr int64_t kMostRowElements = int64_t{1} << 30;

/// Rows of logits that Kernels::sample draws from, or states the distributions of.
inline int64_t sampled_rows(const Tensor& ids, const Tensor& laws, const Tensor& ends) {
    return ends ? ends.rows() : ids ? ids.rows() : laws.rows();
}

class Kernels {
  public:
    virtual ~Kernels() = default;

    /// out[r] = table[ids[r]].  out f32 [rows, dim], table [vocab, dim], ids i32 [rows], each in [0, vocab).
    void embed(const Tensor& out, const Tensor& table, const Tensor& ids);
    /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  out, x f32 [rows, n] (may be the same), weight f32 [n].
    void rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps);
    /// out = x w^T.  out f32 [rows, n], x f32 [rows, k], w [n, k] contiguous; k = 0 gives zeros. out and x do not
    /// overlap.
    void matmul(const Tensor& out, const Tensor& x, const Tensor& w);
    /// Rotates pairs (i, i + head_dim/2) of every head, in place.  x f32 [rows, heads * head_dim];
    /// cos_sin f32 [rows, head_dim]: cosines of the pairs, then sines.
    void rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim);
    /// Decode: k, v f32 [rows, kv_heads * head_dim], rounded into the staged rows that are theirs: each row's last
    /// ancestor.
    void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows);
    /// Prefill: k, v of consecutive rows, rounded into their tiles at rows.slots. `change` f32 [rows, 2], or none: is
    /// raised to the largest difference between an element of the row's key, and of its value, and what was there.
    void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                   const Tensor& change = {});
    /// In every layer staged row kept[i, 0] goes to slot kept[i, 1] of sequence kept[i, 2].  kept i32 [n, 3]. Layers
    /// are laid out alike, with tables of one shape; `layers` must stay as it is until the operation is over.
    void kv_keep(std::span<const LayerKv> layers, const Tensor& kept);
    /// out[r] = sum_i softmax_i(q[r] . k_i / sqrt(head_dim)) v_i, i over what RowsView says; query head h reads KV head
    /// kv_of_head[h].  out, q f32 [rows, heads * head_dim]; kv_of_head i32 [heads], non-decreasing.
    /// Accumulated by tiles of 256 slots, in slot order: each tile gives (max, sum, acc), merged in tile order.
    ///
    /// Rows may be attended in parts, as tiles arrive (decode): a row's parts follow each other from tile 0 on, each
    /// with a table of its own tiles, nothing else of this object but gather_chunks and other rows' parts between them;
    /// the part that holds a row's last slot writes its result. A row is known by rows.first_row. Rows of several
    /// sequences whose first tiles are the same may be attended there as rows of one. The bits do not depend on the
    /// parts. With `report` all tiles are attended in one part, and what it asks for is written too.
    void attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                   const RowsView& rows, const TileRange& part = {}, const AttentionReport& report = {});
    /// out = silu(gate) * up.  gate_up f32 [rows, 2n]: gate in the first n columns; out f32 [rows, n].
    void swiglu(const Tensor& out, const Tensor& gate_up);
    /// x += y.  f32 [rows, n].
    void add(const Tensor& x, const Tensor& y);
    /// out[i] = x[rows[i]].  f32; rows i32 [n].
    void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows);
    /// ids[r] = the token that row r's uniform draws (kernels/sampling.h).  ids i32 [rows]; logits f32 [parts, rows or
    /// more, cols] contiguous, of which the first rows count, id = part * cols + column, below `vocab`; uniforms i64
    /// [rows], times 2^53. The stream fails with Exit::kData where a row holds a NaN or has no finite maximum.
    /// With `laws`, i64 [rows, kRowLawWords], also says the law of each row (RowLaw). Without `ids` and `uniforms`,
    /// nothing is drawn.
    /// With `ends`, i32 [rows], row r draws siblings, ids [ends[r - 1], ends[r]) of i32 [n], n at most kMaxRows;
    /// uniforms i64 [n]. They are drawn one by one, each with what its elders weigh set to zero; a rule without a scale
    /// takes the largest logits in their order. -1 where nothing is left.
    void sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                const SamplingRule& rule, const Tensor& laws = {}, const Tensor& ends = {});
    /// Which of the proposed tokens stay behind the text's last one, and what stands behind them
    /// (kernels/acceptance.h). proposals i64 [1 + n, kProposalWords] (Proposal: first the text's last token, parents
    /// before children). The verifier's logits f32 [parts, rows or more, cols] and laws i64 [rows, kRowLawWords]: the
    /// last 1 + n of these rows, in the same order. out i32 [2 + n]: how many stay; the token behind them; those that
    /// stay, by number, in order.
    void accept(const Tensor& out, const Tensor& logits, const Tensor& laws, const Tensor& proposals, int64_t vocab);
    /// means[h, c] = the mean key of chunk c of KV head h, rounded to the keys' type, for every chunk of these tiles of
    /// the sequence. means [kv_heads, chunks, head_dim] contiguous; a chunk has `chunk` tokens, a divisor of
    /// kTileTokens.
    void chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles, int64_t chunk);
    /// places[h, c] = where chunk c stands, in order, among the chunks that KV head h picks of the candidates: the
    /// first chunk, and those with the largest sum over the head's queries of q . means[h, c], of equal ones the
    /// earlier; kNotPicked elsewhere. places i32 [kv_heads, chunks], means as above; keys i64 [kv_heads, chunks] is
    /// scratch; q f32 [1, heads * head_dim]; pick i32 [kChunkPickWords] (ChunkPick).
    void choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                       const Tensor& kv_of_head, const Tensor& pick);
    /// Copies chunks into `to`, one behind the other: those picked of the candidates in their order, then all behind
    /// the candidates. Both of sequence 0. Of those, only what lies in tiles `part` of `from`, which are at hand there.
    void gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick, int64_t chunk,
                       const TileRange& part = {});

    /// Prefill: sums[h, slot] += the attention that query head h has given to the slot, over all these rows.  sums f32
    /// [heads, slots]; q, kv, kv_of_head, rows as attention took them, or some of the last rows; totals f32 [rows,
    /// heads, 2]: what attention reported of those. Added row by row, in an order that does not depend on threads. Rows
    /// that see nothing give nothing.
    void key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                     const Tensor& kv_of_head, const RowsView& rows);
    /// out[o, k, i] = the attention that slot i of owner o got, of the query heads that read KV head k: added or the
    /// largest one, each times shares[head] (WeightPool).  out f32 [owners, kv_heads, n]; weights f32 [owners, heads, n
    /// or more]; tops f32 [owners, heads, tiles] and totals f32 [owners, heads, 2] as attention reports them of one
    /// row, or none: weights are attention then. kv_of_head i32, shares f32 [heads].
    void pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                      const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool);
    /// A decode step of one row, the text's token `token`, is over: in every owner and head the token takes a slot with
    /// the staged row 0, a new one while the head's budget lasts, then that of the token that is worth least.  weights
    /// f32 [owners, kv_heads, slots + 1], slots in use and the staged row behind them; none where the rule does not ask
    /// (SlotRule::counts_all).
    void slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token);
    /// Copies what the heads of an owner keep, by rank, to entries of `to` (SlotCall); sets to.begins and order, i32
    /// [kv_heads, slots], the slot of each rank.
    void slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call);
    /// scores[h, e] = what entry e of head h is worth after the call.  scores f32 [kv_heads, entries]; from: keys of
    /// the entries; order as slot_gather left it; weights f32 [kv_heads, entries], or none where the rule does not ask,
    /// or sums get nothing new: there are no fresh entries.
    void slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                     const Tensor& weights, const SlotRule& rule, const SlotCall& call);
    /// keys[h, e] = what entry e of head h is worth, different for all entries of a head; 0: it has no such entry.
    /// keys i64 [kv_heads, entries]; order and scores as above.
    void slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                   const SlotRule& rule, const SlotCall& call);
    /// Sets the budgets of an owner's heads for this call, as heads of all ranks share them, and gives out its tiles
    /// anew; slot_choose is to follow, with SlotCall::retiled. Of equal keys that of the first head is worth more.
    /// tiles u8 [tiles, bytes of a head's tile]: the owner's; keys i64 [.., entries]: of the model's heads; these are
    /// cleared in part; rows i32 [heads]: where each head's are; largest i32 [owners]: the largest budget of all ranks.
    void slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                    const Tensor& largest, const SlotShare& share, const SlotRule& rule, const SlotCall& call);
    /// Of each head's entries those that are worth most stay, and its last ones, as many as its budget allows: those
    /// that had a slot keep it, fresh ones are copied from `from` to slots that are free.  keys i64 [kv_heads, 2 *
    /// entries] is scratch.
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
                           const SamplingRule& rule, const Tensor& laws, const Tensor& ends) = 0;
    virtual void do_accept(const Tensor& out, const Tensor& logits, const Tensor& laws, const Tensor& proposals,
                           int64_t vocab) = 0;
    virtual void do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                                int64_t chunk) = 0;
    virtual void do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                                  const Tensor& kv_of_head, const Tensor& pick) = 0;
    virtual void do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                                  int64_t chunk, const TileRange& part) = 0;
    virtual void do_key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                                const Tensor& kv_of_head, const RowsView& rows) = 0;
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

/// Kernels of registered devices (runtime/device.h), by their names.
using KernelsMaker = std::unique_ptr<Kernels> (*)(Device& device, Stream& stream, Phase phase,
                                                  const KernelLimits& limits);
Registry<KernelsMaker>& kernels_makers();

/// Device memory that an object asks for; "cpu" with `threads` threads, or a GPU's. Known without the device.
size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads);

/// Whether products of bf16 are faster than those of f16: on CPUs with dot products of bf16.
bool multiplies_bf16_faster(std::string_view backend);

/// The backend is the device's. `device` must outlive the object.
std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme
