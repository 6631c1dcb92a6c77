#pragma once
/// Which layers read the keys and values of each owner, for views that keep tokens by the attention that these got:
/// what all readers of an owner give counts. Told by who knows the model's layer map. Pure arithmetic.

#include <cstdint>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// A layer's attention.
struct KvReader {
    OwnerIndex owner;     // whose keys and values it reads
    bool strict = false;  // rows do not see themselves
};

class KvReaders {
  public:
    /// All layers of a model in order, each with so many query heads on this rank. `places` [owners]: where the keys
    /// and values of a prompt lie until the owner's heads have chosen; two owners have one place only if those of the
    /// first are of no use any more when those of the second come. Errors: Exit::kInternal for an owner that nobody
    /// reads.
    KvReaders(int64_t heads, std::vector<KvReader> layers, std::vector<int64_t> places);
    /// Of a model whose layers read their own keys and values.
    static KvReaders own(int64_t heads, int64_t owners);

    int64_t heads() const { return heads_; }
    int64_t layers() const { return static_cast<int64_t>(layers_.size()); }
    int64_t owners() const { return static_cast<int64_t>(readers_.size()); }
    const KvReader& operator[](LayerIndex layer) const { return layers_[layer.at()]; }
    /// Whether rows of any layer do not see themselves.
    bool any_strict() const;

    /// The layers that read an owner, in order; a layer's number among those of its owner.
    const std::vector<LayerIndex>& of(OwnerIndex owner) const { return readers_[owner.at()]; }
    int64_t number(LayerIndex layer) const { return numbers_[layer.at()]; }
    /// The most readers that an owner has.
    int64_t most() const;

    int64_t place(OwnerIndex owner) const { return places_[owner.at()]; }
    int64_t places() const;

  private:
    int64_t heads_;
    std::vector<KvReader> layers_;
    std::vector<int64_t> numbers_;                  // by layer
    std::vector<std::vector<LayerIndex>> readers_;  // by owner
    std::vector<int64_t> places_;
};

}  // namespace trireme
