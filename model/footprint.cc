#include "model/footprint.h"

#include <algorithm>

#include "model/passes.h"

namespace trireme {

namespace {

std::vector<LayerIndex> owners_of(const LayerMap& map) {
    std::vector<LayerIndex> owners;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.owns(l)) owners.push_back(l);
    }
    return owners;
}

}  // namespace

int64_t prefill_batches(int64_t tokens) {
    return (tokens + kPrefillRows - 1) / kPrefillRows;
}

KvShape kv_shape(const LlamaConfig& c, const Shard& shard, const LevelOptions& o) {
    return {.layout = {shard.n_kv_heads, c.head_dim, fitting_type(o.k_type, c.head_dim),
                       fitting_type(o.v_type, c.head_dim)},
            .owner_layers = c.layer_map.owners(),
            .sequences = o.sequences,
            .context = o.context == 0 ? c.context : o.context,
            .common = o.common};
}

KernelLimits kernel_limits(const LlamaConfig& c, const Shard& shard, int64_t rows, bool blocks) {
    return {.max_rows = rows,
            .max_k = std::max({c.dim, shard.n_heads * c.head_dim, shard.ffn_dim}),
            .max_n = std::max(
                {(shard.n_heads + 2 * shard.n_kv_heads) * c.head_dim, c.dim, 2 * shard.ffn_dim, shard.vocab_part}),
            .heads = shard.n_heads,
            .head_dim = c.head_dim,
            .vocab = rows <= kMaxRows ? c.vocab : 0,
            .blocks = blocks};
}

namespace {

/// The number of weights that a decode step of one row multiplies.
size_t weights_per_step(const LlamaConfig& c, const Shard& shard, int64_t passes) {
    return Weights::bytes_per_step_for(c, shard, DType::kF32, passes) / sizeof(float);
}

}  // namespace

MemoryBytes hidden_memory(const LlamaConfig& c, int64_t tokens, bool on_host) {
    const MemoryBytes rows = RowStore::memory(tokens, c.dim, kPrefillRows, on_host);
    return c.layer_map.upward() ? rows + rows : rows;
}

PlanInput plan_input(const LlamaConfig& c, const Shard& shard, const WeightFormat& weights, const LevelOptions& o,
                     std::string_view backend, int threads, int64_t on_chip) {
    const KvShape kv = kv_shape(c, shard, o);
    const auto scratch = [&](Phase phase, int64_t rows) {
        return MemoryBytes{
            .device = kernel_scratch(backend, phase, kernel_limits(c, shard, rows, weights.has_blocks()), threads)};
    };
    const auto prompt_batches = [&](int64_t places) { return BatchMaker::memory(c.head_dim, kPrefillRows, places); };
    const MemoryBytes prefill_work = scratch(Phase::kPrefill, kPrefillRows) + prompt_batches(1);
    return {.kv = kv,
            .reads = c.layer_map.reads(),
            .owners = owners_of(c.layer_map),
            .on_chip = on_chip,
            .ring = o.residency.ring,
            .span_bytes = o.residency.span_bytes,
            .coded = o.residency.coded,
            .weight_bytes = Weights::bytes_for(c, shard, weights),
            .weight_bytes_per_step = Weights::bytes_per_step_for(c, shard, weights),
            .weights_per_step = weights_per_step(c, shard, 1),
            .work = prefill_work + Scratch::memory(c, shard) + FullCache::table_memory(kv) +
                    scratch(Phase::kDecode, kMaxRows) + BatchMaker::memory(c.head_dim, kMaxRows),
            .prefill_work_bytes = prefill_work.device,
            .by_layers = c.layer_map.upward(),
            .hidden_on_device = hidden_memory(c, kv.context, /*on_host=*/false),
            .hidden_on_host = hidden_memory(c, kv.context, /*on_host=*/true),
            .prompt_batches = prompt_batches(prefill_batches(kv.context)) - prompt_batches(1)};
}

PlanInput with_passes(PlanInput in, const LlamaConfig& c, const Shard& shard, const WeightFormat& weights,
                      int64_t passes) {
    in.reads = forward_reads(c.layer_map, passes);
    in.weight_bytes_per_step = Weights::bytes_per_step_for(c, shard, weights, passes);
    in.weights_per_step = weights_per_step(c, shard, passes);
    return in;
}

MemoryBytes level_work(const LlamaConfig& c, const Shard& shard, const WeightFormat& weights, const LevelOptions& o,
                       std::string_view backend, int threads) {
    LevelOptions one = o;
    one.sequences = 1;
    one.common = 0;
    const PlanInput in = plan_input(c, shard, weights, one, backend, threads, PlanInput::kAll);
    return in.by_layers ? in.work + in.hidden_on_device + in.prompt_batches : in.work;
}

Shard largest_shard(const LlamaConfig& c, int ranks) {
    Shard most = make_shard(c, 0, ranks);
    for (int rank = 1; rank < ranks; ++rank) {
        const Shard s = make_shard(c, rank, ranks);
        if (s.n_kv_heads > most.n_kv_heads || (s.n_kv_heads == most.n_kv_heads && s.n_heads > most.n_heads)) most = s;
    }
    return most;
}

}  // namespace trireme
