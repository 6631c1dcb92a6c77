#pragma once
/// KvReaders: the layers that read each owner's keys and values, from the model's layer map. Eviction by attention
/// needs them, because the attention of all readers counts. Pure arithmetic.

#include <cstdint>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// A layer's attention.
struct KvReader {
    OwnerIndex owner;     // the owner whose keys and values it reads
    bool strict = false;  // rows do not see themselves
};

class KvReaders {
  public:
    /// Takes all layers of a model in order, each with `heads` query heads on this rank. `places` [owners]: the number
    /// (from 0) of the scratch buffer for an owner's prompt keys and values, until its heads have chosen. Two owners
    /// share a place only if those of the first are no longer needed when those of the second arrive. Errors:
    /// Exit::kInternal for an owner without readers.
    KvReaders(int64_t heads, std::vector<KvReader> layers, std::vector<int64_t> places);
    /// The readers of a model whose layers read their own keys and values.
    static KvReaders own(int64_t heads, int64_t owners);

    int64_t heads() const { return heads_; }
    int64_t layers() const { return static_cast<int64_t>(layers_.size()); }
    int64_t owners() const { return static_cast<int64_t>(readers_.size()); }
    const KvReader& operator[](LayerIndex layer) const { return layers_[layer.at()]; }
    /// Whether rows of any layer do not see themselves.
    bool any_strict() const;

    /// The layers that read an owner, in order.
    const std::vector<LayerIndex>& of(OwnerIndex owner) const { return readers_[owner.at()]; }
    /// A layer's index among its owner's readers.
    int64_t number(LayerIndex layer) const { return numbers_[layer.at()]; }
    /// The most readers that an owner has.
    int64_t most() const;

    int64_t place(OwnerIndex owner) const { return places_[owner.at()]; }
    /// The number of places.
    int64_t places() const;

  private:
    int64_t heads_;
    std::vector<KvReader> layers_;
    std::vector<int64_t> numbers_;                  // by layer
    std::vector<std::vector<LayerIndex>> readers_;  // by owner
    std::vector<int64_t> places_;
};

}  // namespace trireme
