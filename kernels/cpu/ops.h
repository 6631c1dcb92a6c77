#pragma once
/// Bodies of the CPU operations. They run inside a closure of the stream, on its worker thread, with its team of
/// threads. `scratch` is the Kernels object's; operations of one stream never overlap, so all share it.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/distribution.h"
#include "kernels/kernels.h"
#include "runtime/cpu/parallel.h"

namespace trireme {

/// Bytes of scratch each operation needs within the limits, with `threads` threads.
size_t matmul_decode_scratch(const KernelLimits& limits, int threads);
size_t matmul_prefill_scratch(const KernelLimits& limits, int threads);
size_t attention_decode_scratch(const KernelLimits& limits, int threads);
size_t attention_prefill_scratch(const KernelLimits& limits, int threads);
size_t key_weights_scratch(const KernelLimits& limits, int threads);
size_t expected_weights_scratch(const KernelLimits& limits, int threads);
size_t sample_scratch(const KernelLimits& limits, int threads);
size_t accept_scratch(const KernelLimits& limits);

// Bodies of the operations that kernels/kernels.h describes; operands have been checked there.

void embed(const Tensor& out, const Tensor& table, const Tensor& ids);
void rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps);
void matmul_decode(const Tensor& out, const Tensor& x, const Tensor& w, void* scratch);
void matmul_prefill(const Tensor& out, const Tensor& x, const Tensor& w, void* scratch);
void embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids);
void matmul_blocks_decode(const Tensor& out, const Tensor& x, const WeightMatrix& w, const KernelLimits& limits,
                          void* scratch);
/// The products of matmul_blocks_decode() with the interleaved parts of w. Scratch: that of either phase.
void multiply_interleaved(const Tensor& out, const Tensor& x, const WeightMatrix& w, void* scratch);
void matmul_blocks_prefill(const Tensor& out, const Tensor& x, const WeightMatrix& w, const KernelLimits& limits,
                           void* scratch);
void rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim);
void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows);
void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows, const Tensor& change);
void kv_keep(std::span<const LayerKv> layers, const Tensor& kept);
void attention_decode(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                      const RowsView& rows, const TileRange& part, const AttentionReport& report,
                      const KernelLimits& limits, void* scratch);
void attention_prefill(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                       const RowsView& rows, const AttentionReport& report, void* scratch);
void swiglu(const Tensor& out, const Tensor& gate_up);
void add(const Tensor& x, const Tensor& y);
void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows);
void sample(const Tensor& ids, const Tensor& distributions, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
            const Tensor& ends, const SamplingRule& rule, void* scratch);
void accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
            int64_t vocab, void* scratch);

void chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles, int64_t chunk);
void choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                   const Tensor& kv_of_head, const Tensor& pick);
void gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick, int64_t chunk,
                   const TileRange& part);

void key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv, const Tensor& kv_of_head,
                 const RowsView& rows, const KernelLimits& limits, void* scratch);
void expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                      const Tensor& kv_of_head, const KernelLimits& limits, void* scratch);
void pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                  const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool);
void slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token);
void slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call);
void slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                 const Tensor& weights, const SlotRule& rule, const SlotCall& call);
void slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores, const SlotRule& rule,
               const SlotCall& call);
void slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows, const Tensor& largest,
                const SlotShare& share, const SlotRule& rule, const SlotCall& call);
void slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores, const Tensor& keys,
                 const SlotRule& rule, const SlotCall& call);

/// Calls body(begin, end) for all rows, on several threads if the work is worth a parallel region (1-2 us).
template <class Body>
void for_rows(int64_t rows, int64_t row_elements, Body&& body) {
    if (rows * row_elements < 1 << 16) return body(int64_t{0}, rows);
    parallel([&](int thread, int threads) {
        const Part part = part_of(rows, thread, threads);
        body(part.begin, part.end);
    });
}

/// Calls body(i, thread) for items of unequal work, which threads take one at a time. Little work is done by thread 0
/// alone.
template <class Body>
void for_items(int64_t items, int64_t item_elements, Body&& body) {
    if (items * item_elements < 1 << 16) {
        for (int64_t i = 0; i < items; ++i) body(i, 0);
        return;
    }
    Handout shared(items, parallel_width());
    parallel([&](int thread, int) {
        for (int64_t i = shared.first(thread); i < items; i = shared.next()) body(i, thread);
    });
}

/// Elements of a row of x, with the rest of its first and last block where weights are in blocks.
inline int64_t most_k(const KernelLimits& limits) {
    return limits.max_k + (limits.blocks ? 2 * kMostBlock : 0);
}

/// Arguments of a matmul for one thread.
struct MatmulArgs {
    const void* x;  // [rows, x_stride], packed: f32, or bf16 for dot products of pairs
    const void* w;  // [n, k]
    float* out;     // [rows, out_stride]
    int64_t rows, n, k, x_stride, out_stride;
};

}  // namespace trireme
