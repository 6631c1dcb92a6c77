#include "model/evicting_kv.h"

#include <algorithm>
#include <memory>

#include "model/checkpoint/rope.h"
#include "model/head_exchange.h"
#include "model/head_mean.h"
#include "offload/evicting/evicting_cache.h"
#include "offload/evicting/parallel_cache.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// Whether scores come from attention, of heads that several ranks hold.
bool exchanges(const LlamaConfig& config, int ranks, const EvictionShape& shape) {
    return shape.attentive() && HeadExchange::needed(config, ranks);
}

int64_t most_heads(const LlamaConfig& config, int ranks) {
    int64_t most = 0;
    for (int rank = 0; rank < ranks; ++rank) most = std::max(most, make_shard(config, rank, ranks).n_kv_heads);
    return most;
}

/// Returns the factor with which each query head's attention is added to its KV head's weights.
std::vector<float> shares_of(const LlamaConfig& config, const Shard& shard, HeadsBy heads) {
    const int64_t group = config.n_heads / config.n_kv_heads;
    std::vector<float> shares;
    for (int64_t h = 0; h < shard.n_heads; ++h) {
        const bool first = (shard.head_begin + h) % group == 0;
        shares.push_back(heads == HeadsBy::kMean    ? 1.0F / static_cast<float>(group)
                         : heads == HeadsBy::kFirst ? (first ? 1.0F : 0.0F)
                                                    : 1.0F);
    }
    return shares;
}

/// The layers of this rank as readers of their owners.
KvReaders readers_of(const LlamaConfig& config, const Shard& shard) {
    std::vector<KvReader> layers;
    for (LayerIndex l; l.i < config.n_layers; ++l) {
        layers.push_back({.owner = config.layer_map.reads(l), .strict = config.strict(l)});
    }
    return {shard.n_heads, std::move(layers), prompt_places(config.layer_map)};
}

/// `most`: the most elements of a KV head that are exchanged at once.
EvictingModel evicting_model(Device& device, Stream& compute, const LlamaConfig& config, const Shard& shard,
                             const EvictionShape& shape, Comm& comm, int64_t most) {
    const HeadsBy heads = shape.heads;
    const auto rope = std::make_shared<Rope>(config.rope, config.head_dim);
    const HeadPool pool = heads == HeadsBy::kMax ? HeadPool::kMax : HeadPool::kAdd;
    EvictingModel model = {
        .readers = readers_of(config, shard),
        .kv_of_head = shard.kv_of_head,
        .shares = shares_of(config, shard, heads),
        .pool = pool,
        .angles = [rope](std::span<float> out, int64_t position, int64_t text) { rope->fill(out, position, text); },
        .turn = [rope](std::span<float> out, int64_t positions) { rope->turn(out, positions); },
        .exchange = {}};
    std::shared_ptr<HeadExchange> same;
    std::shared_ptr<HeadMean> all;
    if (exchanges(config, shard.ranks, shape)) {
        same = std::make_shared<HeadExchange>(device, compute, comm, shard, config.n_kv_heads, most, model.pool);
    }
    if (shape.one_set) {
        all = std::make_shared<HeadMean>(device, compute, comm, config, shard, config.layer_map.owners(), most);
    }
    if (!same && !all) return model;
    model.exchange = [same, all](Kernels& op, const Tensor& weights) {
        if (same) same->exchange(op, weights);
        if (all) all->spread(op, weights);
    };
    return model;
}

/// Returns the shape with the numbers that depend on the rank.
EvictionShape shape_of_rank(const LlamaConfig& config, const Shard& shard, EvictionShape shape) {
    shape.first_head = shard.kv_begin;
    shape.all_heads = config.n_kv_heads;
    shape.key_rows = shard.ranks * most_heads(config, shard.ranks);
    return shape;
}

/// Every rank has one row of keys for each head of the rank with the most heads. A head that several ranks hold is read
/// from the first of them.
void share_keys(EvictingModel& model, const LlamaConfig& config, const Shard& shard, Stream& compute, Comm& comm) {
    model.own_rows = most_heads(config, shard.ranks);
    model.first_row = shard.rank * model.own_rows;
    model.rows.assign(static_cast<size_t>(config.n_kv_heads), 0);
    for (int rank = shard.ranks; rank-- > 0;) {
        const Shard s = make_shard(config, rank, shard.ranks);
        for (int64_t h = 0; h < s.n_kv_heads; ++h) {
            model.rows[index(s.kv_begin + h)] = static_cast<int32_t>(rank * model.own_rows + h);
        }
    }
    if (shard.ranks == 1) return;
    model.gather = [&compute, &comm, ranks = shard.ranks, own = model.own_rows](const Tensor& all, const Tensor& part) {
        comm.all_gather(compute, Tensor(all.data(), DType::kI64, {ranks, own, all.cols()}), part);
    };
}

}  // namespace

CacheMaker evicting_cache(const LlamaConfig& config, const Shard& shard, const EvictionShape& shape, Comm& comm) {
    const EvictionShape own = shape_of_rank(config, shard, shape);
    return [&config, shard, own, &comm](Device& device, Stream& compute, const KvShape& kv,
                                        const std::vector<OwnerIndex>&) -> std::unique_ptr<KvCache> {
        const auto make = [&](const KvShape& of_one, const EvictingCache* first) {
            EvictingModel model =
                evicting_model(device, compute, config, shard, own, comm, EvictingCache::exchanged(of_one, own));
            if (own.shares()) share_keys(model, config, shard, compute, comm);
            return std::make_unique<EvictingCache>(device, compute, of_one, own, std::move(model), first);
        };
        if (kv.sequences == 1) return make(kv, nullptr);
        return std::make_unique<ParallelCache>(device, compute, kv, make);
    };
}

MemoryBytes evicting_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv,
                            const EvictionShape& asked, std::string_view backend, int threads) {
    const EvictionShape shape = shape_of_rank(config, shard, asked);
    MemoryBytes each;
    if (shape.observing()) {
        const KernelLimits limits = EvictingCache::renewing_limits(kv, shape, shard.n_heads);
        each.device += kernel_scratch(backend, Phase::kPrefill, limits, threads);
    }
    if (exchanges(config, shard.ranks, shape)) {
        each.device += HeadExchange::memory(config.n_kv_heads, EvictingCache::exchanged(kv, shape), shard.ranks);
    }
    if (shape.one_set) each.device += HeadMean::memory(shard, kv.owner_layers, EvictingCache::exchanged(kv, shape));
    const MemoryBytes all = kv.sequences * each + EvictingCache::memory_for(kv, shape, readers_of(config, shard));
    return kv.sequences == 1 ? all : all + ParallelCache::memory_for();
}

std::unique_ptr<HeavySet> heavy_set(Device& device, Level& target, const EvictionShape& shape, Comm& comm,
                                    int64_t sequence) {
    FullCache& full = *target.full();
    const Shard& shard = target.weights().shard();
    return std::make_unique<HeavySet>(device, target.stream(), full, shape,
                                      evicting_model(device, target.stream(), target.config(), shard, shape, comm,
                                                     HeavySet::exchanged(one_sequence(full.shape()), shape)),
                                      sequence);
}

MemoryBytes heavy_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv, const EvictionShape& shape,
                         std::string_view backend, int threads) {
    MemoryBytes all = HeavySet::memory_for(kv, shape, readers_of(config, shard));
    all.device += kernel_scratch(backend, Phase::kDecode, HeavySet::step_limits(kv, shard.n_heads), threads);
    if (exchanges(config, shard.ranks, shape)) {
        all.device += HeadExchange::memory(config.n_kv_heads, HeavySet::exchanged(kv, shape), shard.ranks);
    }
    if (shape.one_set) all.device += HeadMean::memory(shard, kv.owner_layers, HeavySet::exchanged(kv, shape));
    return all;
}

}  // namespace trireme
