#include "model/footprint.h"

#include <algorithm>

namespace trireme {

int64_t prefill_chunks(int64_t tokens) {
    return (tokens + kPrefillRows - 1) / kPrefillRows;
}

std::vector<int64_t> owners_of_layers(const LlamaConfig& c) {
    std::vector<int64_t> number(c.kv_source.size()), owner;
    int64_t owners = 0;
    for (int64_t l = 0; l < c.n_layers; ++l) number[static_cast<size_t>(l)] = c.owns_kv(l) ? owners++ : -1;
    for (const int64_t source : c.kv_source) {
        require(source <= static_cast<int64_t>(owner.size()), Exit::kData,
                "{}: layer {} reads the keys and values of layer {}, which comes after it; want one before", c.name,
                owner.size(), source);
        owner.push_back(number[static_cast<size_t>(source)]);
    }
    return owner;
}

KvShape kv_shape(const LlamaConfig& c, const Shard& shard, const LevelOptions& o) {
    int64_t owners = 0;
    for (int64_t l = 0; l < c.n_layers; ++l) owners += c.owns_kv(l);
    return {.layout = {shard.n_kv_heads, c.head_dim, o.k_type, o.v_type},
            .owner_layers = owners,
            .sequences = o.sequences,
            .context = o.context == 0 ? c.context : o.context};
}

KernelLimits kernel_limits(const LlamaConfig& c, const Shard& shard, int64_t rows) {
    return {.max_rows = rows,
            .max_k = std::max({c.dim, shard.n_heads * c.head_dim, shard.ffn_dim}),
            .max_n = std::max(
                {(shard.n_heads + 2 * shard.n_kv_heads) * c.head_dim, c.dim, 2 * shard.ffn_dim, shard.vocab_part}),
            .heads = shard.n_heads,
            .head_dim = c.head_dim,
            .vocab = rows <= kMaxRows ? c.vocab : 0};
}

PlanInput plan_input(const LlamaConfig& c, const Shard& shard, DType weights, const LevelOptions& o,
                     std::string_view backend, int threads, int64_t on_chip) {
    const KvShape kv = kv_shape(c, shard, o);
    const int64_t places = prefill_chunks(kv.context);
    PlanInput in = {.kv = kv,
                    .reads = owners_of_layers(c),
                    .on_chip = on_chip,
                    .ring = o.residency.ring,
                    .span_bytes = o.residency.span_bytes,
                    .weight_bytes = Weights::bytes_for(c, shard, weights)};
    in.prefill_work_bytes = kernel_scratch(backend, Phase::kPrefill, kernel_limits(c, shard, kPrefillRows), threads) +
                            BatchMaker::device_bytes(c.head_dim, kPrefillRows);
    in.work_bytes = in.prefill_work_bytes + Scratch::device_bytes(c, shard) + KvCache::device_meta_bytes(kv) +
                    kernel_scratch(backend, Phase::kDecode, kernel_limits(c, shard, kMaxRows), threads) +
                    BatchMaker::device_bytes(c.head_dim, kMaxRows);
    in.host_bytes = Scratch::host_bytes(c, shard) + KvCache::host_meta_bytes() +
                    BatchMaker::host_bytes(c.head_dim, kMaxRows) + BatchMaker::host_bytes(c.head_dim, kPrefillRows);
    in.hidden_bytes = RowStore::device_bytes(kv.context, c.dim, kPrefillRows, /*on_host=*/false);
    in.hidden_place_bytes = RowStore::device_bytes(kv.context, c.dim, kPrefillRows, /*on_host=*/true);
    in.batch_bytes =
        BatchMaker::device_bytes(c.head_dim, kPrefillRows, places) - BatchMaker::device_bytes(c.head_dim, kPrefillRows);
    in.host_batch_bytes =
        BatchMaker::host_bytes(c.head_dim, kPrefillRows, places) - BatchMaker::host_bytes(c.head_dim, kPrefillRows);
    in.weight_bytes_per_step = Weights::bytes_per_step_for(c, shard, weights);
    return in;
}

size_t draft_bytes(const LlamaConfig& c, DType weights, const LevelOptions& o, std::string_view backend, int threads,
                   int64_t window) {
    LevelOptions whole = o;
    whole.context = window;
    const PlanInput in = plan_input(c, largest_shard(c, 1), weights, whole, backend, threads, PlanInput::kAll);
    return plan_with(in, in.kv.owner_layers).device_bytes();
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
