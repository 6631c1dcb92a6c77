#pragma once
/// EvictingModel: model-dependent inputs of KV cache eviction on one rank, for EvictingCache and HeavySet. Supplied by
/// model/evicting_kv.cc.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/kv_readers.h"

namespace trireme {

struct EvictingModel {
    KvReaders readers;                // with this rank's query heads
    std::vector<int32_t> kv_of_head;  // [heads]: the KV head that each reads
    std::vector<float> shares;        // [heads]: the factor of each head's attention weights, in one layer
    HeadPool pool = HeadPool::kAdd;   // how the weights of the query heads of a KV head are combined
    // Cosines and sines of a position in a sequence of `text` tokens, [head_dim].
    std::function<void(std::span<float> out, int64_t position, int64_t text)> angles;
    // Cosines and sines that rotate a query by `positions` more positions, or fewer if negative, [head_dim].
    std::function<void(std::span<float> out, int64_t positions)> turn;
    // Combines the weights of heads in place, f32 [owners, kv_heads, n]: those of a KV head on several ranks by their
    // sum or maximum; those of all KV heads of a layer by their mean, if they keep one set. Collective over ranks,
    // enqueued. Empty: each head chooses by its own weights.
    std::function<void(Kernels&, const Tensor& weights)> exchange;
    // Only if heads share slots: the row of each of the model's KV heads among the rows of keys that ranks gather.
    std::vector<int32_t> rows = {};
    int64_t first_row = 0, own_rows = 0;  // this rank's rows; own_rows is equal on all ranks
    // Gathers the rows of all ranks into `all`. Collective over ranks, enqueued. Empty if there is one rank.
    std::function<void(const Tensor& all, const Tensor& own)> gather = {};
};

/// Whether this layer's attention counts for the scores of its owner's tokens.
inline bool counts(const EvictionShape& shape, const KvReaders& readers, LayerIndex layer) {
    return shape.attentive() && (shape.heads != HeadsBy::kFirst || readers.number(layer) == 0);
}
/// How this layer's attention is combined with that of the owner's earlier readers.
inline WeightPool pool_of(const EvictionShape& shape, const EvictingModel& model, LayerIndex layer) {
    const auto readers = static_cast<float>(model.readers.of(model.readers[layer].owner).size());
    return {.by = model.pool,
            .share = shape.heads == HeadsBy::kMean ? 1.0F / readers : 1.0F,
            .more = model.readers.number(layer) > 0};
}

}  // namespace trireme
