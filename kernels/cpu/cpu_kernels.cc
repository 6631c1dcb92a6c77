#include "kernels/cpu/cpu_kernels.h"

#include "kernels/bytes.h"
#include "kernels/cpu/ops.h"

namespace trireme {

size_t cpu_scratch(Phase phase, const KernelLimits& limits, int threads) {
    if (phase == Phase::kDecode) {
        return std::max({matmul_decode_scratch(limits, threads), attention_decode_scratch(limits, threads),
                         sample_scratch(limits, threads), accept_scratch(limits)});
    }
    return std::max({matmul_prefill_scratch(limits, threads), attention_prefill_scratch(limits, threads),
                     key_weights_scratch(limits, threads), expected_weights_scratch(limits, threads)});
}

CpuKernels::CpuKernels(Device& device, CpuStream& stream, Phase phase, const KernelLimits& limits)
    : Kernels(phase, limits), stream_(stream), scratch_(device, cpu_scratch(phase, limits, stream.threads())) {}

void CpuKernels::do_embed(const Tensor& out, const Tensor& table, const Tensor& ids) {
    stream_.enqueue("embed", bytes::embed(out, table), [=] { trireme::embed(out, table, ids); });
}

void CpuKernels::do_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) {
    stream_.enqueue("rmsnorm", bytes::rmsnorm(x), [=] { trireme::rmsnorm(out, x, weight, eps); });
}

void CpuKernels::do_matmul(const Tensor& out, const Tensor& x, const Tensor& w) {
    void* scratch = scratch_.data();
    if (phase() == Phase::kDecode) {
        stream_.enqueue("matmul", bytes::matmul(out, x, w), [=] { matmul_decode(out, x, w, scratch); });
    } else {
        stream_.enqueue("matmul_prefill", bytes::matmul(out, x, w), [=] { matmul_prefill(out, x, w, scratch); });
    }
}

void CpuKernels::do_matmul_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w) {
    check(w.as() != ActivationType::kF16, "matmul: blocks as f16, which CPUs do not multiply");
    const auto run = phase() == Phase::kDecode ? matmul_blocks_decode : matmul_blocks_prefill;
    stream_.enqueue(phase() == Phase::kDecode ? "matmul" : "matmul_prefill", w.bytes() + x.bytes() + out.bytes(),
                    [=, limits = limits(), scratch = scratch_.data()] { run(out, x, w, limits, scratch); });
}

void CpuKernels::do_embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) {
    stream_.enqueue("embed", out.bytes(), [=] { embed_blocks(out, table, ids); });
}

void CpuKernels::do_rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) {
    stream_.enqueue("rope", bytes::rope(x), [=] { trireme::rope(x, cos_sin, head_dim); });
}

void CpuKernels::do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    stream_.enqueue("kv_stage", bytes::kv_write(kv, k.rows()), [=] { trireme::kv_stage(kv, k, v, rows); });
}

void CpuKernels::do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                              const Tensor& change) {
    stream_.enqueue("kv_append", bytes::kv_write(kv, k.rows()), [=] { trireme::kv_append(kv, k, v, rows, change); });
}

void CpuKernels::do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) {
    stream_.enqueue("kv_keep", bytes::kv_keep(layers, kept), [=] { trireme::kv_keep(layers, kept); });
}

void CpuKernels::do_attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                              const RowsView& rows, const TileRange& part, const AttentionReport& report) {
    void* scratch = scratch_.data();
    if (phase() == Phase::kDecode) {
        stream_.enqueue("attention", bytes::attention(kv, rows, part), [=, limits = limits()] {
            attention_decode(out, q, kv, kv_of_head, rows, part, report, limits, scratch);
        });
    } else {
        stream_.enqueue("attention_prefill", bytes::attention(kv, rows, part),
                        [=] { attention_prefill(out, q, kv, kv_of_head, rows, report, scratch); });
    }
}

void CpuKernels::do_swiglu(const Tensor& out, const Tensor& gate_up) {
    stream_.enqueue("swiglu", bytes::swiglu(gate_up), [=] { trireme::swiglu(out, gate_up); });
}

void CpuKernels::do_add(const Tensor& x, const Tensor& y) {
    stream_.enqueue("add", bytes::add(x), [=] { trireme::add(x, y); });
}

void CpuKernels::do_sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                           const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) {
    stream_.enqueue("sample", bytes::sample(logits), [=, scratch = scratch_.data()] {
        trireme::sample(ids, distributions, logits, vocab, uniforms, ends, rule, scratch);
    });
}

void CpuKernels::do_accept(const Tensor& out, const Tensor& logits, const Tensor& distributions,
                           const Tensor& proposals, int64_t vocab) {
    stream_.enqueue("accept", bytes::accept(logits), [=, scratch = scratch_.data()] {
        trireme::accept(out, logits, distributions, proposals, vocab, scratch);
    });
}

void CpuKernels::do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                                int64_t chunk) {
    stream_.enqueue("chunk_means", bytes::chunk_means(kv, tiles),
                    [=] { trireme::chunk_means(means, kv, sequence, tiles, chunk); });
}

void CpuKernels::do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                                  const Tensor& kv_of_head, const Tensor& pick) {
    stream_.enqueue("choose_chunks", means.bytes(),
                    [=] { trireme::choose_chunks(places, keys, means, q, kv_of_head, pick); });
}

void CpuKernels::do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                                  int64_t chunk, const TileRange& part) {
    stream_.enqueue("gather_chunks", 0, [=] { trireme::gather_chunks(to, from, places, pick, chunk, part); });
}

void CpuKernels::do_gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
    stream_.enqueue("gather_rows", bytes::gather_rows(out), [=] { trireme::gather_rows(out, x, rows); });
}

void CpuKernels::do_key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                                const Tensor& kv_of_head, const RowsView& rows) {
    stream_.enqueue("key_weights", bytes::attention(kv, rows, {}) / 2,
                    [=, limits = limits(), scratch = scratch_.data()] {
                        trireme::key_weights(sums, q, totals, kv, kv_of_head, rows, limits, scratch);
                    });
}

void CpuKernels::do_expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                                     const Tensor& kv_of_head) {
    stream_.enqueue("expected_weights", bytes::kv_write(kv, weights.cols()),
                    [=, limits = limits(), scratch = scratch_.data()] {
                        trireme::expected_weights(weights, norms, q, kv, kv_of_head, limits, scratch);
                    });
}

void CpuKernels::do_pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                                 const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) {
    stream_.enqueue("pool_weights", weights.bytes(),
                    [=] { trireme::pool_weights(out, weights, tops, totals, kv_of_head, shares, pool); });
}

void CpuKernels::do_slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) {
    stream_.enqueue("slot_step", kv.scores.bytes(), [=] { trireme::slot_step(kv, weights, rule, token); });
}

void CpuKernels::do_slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    stream_.enqueue("slot_gather", 2 * bytes::kv_write(to, call.cached),
                    [=] { trireme::slot_gather(to, kv, order, call); });
}

void CpuKernels::do_slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                                const Tensor& weights, const SlotRule& rule, const SlotCall& call) {
    stream_.enqueue("slot_scores", scores.bytes(),
                    [=] { trireme::slot_scores(scores, kv, from, order, weights, rule, call); });
}

void CpuKernels::do_slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                              const SlotRule& rule, const SlotCall& call) {
    stream_.enqueue("slot_keys", scores.bytes() + keys.bytes(),
                    [=] { trireme::slot_keys(keys, kv, order, scores, rule, call); });
}

void CpuKernels::do_slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                               const Tensor& largest, const SlotShare& share, const SlotRule& rule,
                               const SlotCall& call) {
    stream_.enqueue("slot_share", keys.bytes(),
                    [=] { trireme::slot_share(kv, tiles, keys, rows, largest, share, rule, call); });
}

void CpuKernels::do_slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                                const Tensor& keys, const SlotRule& rule, const SlotCall& call) {
    stream_.enqueue("slot_choose", scores.bytes(),
                    [=] { trireme::slot_choose(kv, from, order, scores, keys, rule, call); });
}

}  // namespace trireme
