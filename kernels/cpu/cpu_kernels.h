#pragma once
/// CpuKernels: the CPU backend. Every operation is one closure on the stream's worker thread.

#include "kernels/kernels.h"
#include "runtime/buffer.h"
#include "runtime/cpu/stream.h"

namespace trireme {

/// Bytes of scratch that a CpuKernels object allocates.
size_t cpu_scratch(Phase phase, const KernelLimits& limits, int threads);

class CpuKernels final : public Kernels {
  public:
    /// `device` and `stream` must outlive the object.
    CpuKernels(Device& device, CpuStream& stream, Phase phase, const KernelLimits& limits);

  private:
    void do_embed(const Tensor& out, const Tensor& table, const Tensor& ids) override;
    void do_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) override;
    void do_matmul(const Tensor& out, const Tensor& x, const Tensor& w) override;
    void do_matmul_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w) override;
    void do_embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) override;
    void do_rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) override;
    void do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) override;
    void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                      const Tensor& change) override;
    void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) override;
    void do_attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                      const RowsView& rows, const TileRange& part, const AttentionReport& report) override;
    void do_swiglu(const Tensor& out, const Tensor& gate_up) override;
    void do_add(const Tensor& x, const Tensor& y) override;
    void do_gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) override;
    void do_sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                   const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) override;
    void do_accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
                   int64_t vocab) override;
    void do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                        int64_t chunk) override;
    void do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                          const Tensor& kv_of_head, const Tensor& pick) override;
    void do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                          int64_t chunk, const TileRange& part) override;
    void do_key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                        const Tensor& kv_of_head, const RowsView& rows) override;
    void do_expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                             const Tensor& kv_of_head) override;
    void do_pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                         const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) override;
    void do_slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) override;
    void do_slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) override;
    void do_slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                        const Tensor& weights, const SlotRule& rule, const SlotCall& call) override;
    void do_slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                      const SlotRule& rule, const SlotCall& call) override;
    void do_slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                       const Tensor& largest, const SlotShare& share, const SlotRule& rule,
                       const SlotCall& call) override;
    void do_slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                        const Tensor& keys, const SlotRule& rule, const SlotCall& call) override;

    CpuStream& stream_;
    Buffer<Space::kDevice> scratch_;  // of the running operation; operations never overlap
};

}  // namespace trireme
