#pragma once
/// A model's rank, as policies that keep some tokens need to know it.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "offload/policies/bounded_shape.h"
#include "offload/policies/kv_readers.h"

namespace trireme {

/// What follows from the model for tokens that its KV heads keep: told by who knows it.
struct BoundedModel {
    KvReaders readers;                // with this rank's query heads
    std::vector<int32_t> kv_of_head;  // [heads]: the KV head that each reads
    std::vector<float> shares;        // [heads]: what each adds to its KV head's weights, of one layer
    HeadPool pool = HeadPool::kAdd;
    // Cosines and sines of a position in a text of so many tokens, [head_dim].
    std::function<void(std::span<float> out, int64_t position, int64_t text)> angles;
    std::function<void(std::span<float> out, int64_t positions)> turn;  // the same of a difference of positions
    /// Brings together what heads have, f32 [owners, kv_heads, n]: of the same KV head on other ranks, added or the
    /// largest; of all KV heads of a layer, their mean, where they keep one set. Empty: each head chooses by its own
    /// weights.
    std::function<void(Kernels&, const Tensor& weights)> exchange;
    /// Where heads share slots, for BoundedShape::key_rows: in which row each of the model's KV heads is, which rows
    /// are this rank's, and what gives `all` those of all ranks; empty: there are no others.
    std::vector<int32_t> rows = {};
    int64_t first_row = 0, own_rows = 0;
    std::function<void(const Tensor& all, const Tensor& own)> gather = {};
};

/// Whether what this layer's heads give counts for its owner's tokens.
inline bool counts(const BoundedShape& shape, const KvReaders& readers, LayerIndex layer) {
    return shape.attentive() && (shape.heads != HeadsBy::kFirst || readers.number(layer) == 0);
}
/// How it goes to what the owner's earlier readers gave.
inline WeightPool pool_of(const BoundedShape& shape, const BoundedModel& model, LayerIndex layer) {
    const auto readers = static_cast<float>(model.readers.of(model.readers[layer].owner).size());
    return {.by = model.pool,
            .share = shape.heads == HeadsBy::kMean ? 1.0F / readers : 1.0F,
            .more = model.readers.number(layer) > 0};
}

}  // namespace trireme
