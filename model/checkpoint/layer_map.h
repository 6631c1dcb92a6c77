#pragma once
/// LayerMap: the layer whose keys and values each layer of a model reads. Identity is Llama; CLA, YOCO and LCKV are
/// other maps (arXiv 2410.14442). Pure arithmetic.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// Consecutive layers [first, end) of a forward. In an iterated block, some layers read later ones of that block.
struct LayerBlock {
    LayerIndex first, end;
    bool iterated = false;
    bool operator==(const LayerBlock&) const = default;
};

/// Owners are the layers that some layer reads, numbered in layer order. Only owners have K/V weights and tiles. An
/// owner need not read itself.
class LayerMap {
  public:
    LayerMap() = default;
    /// Layer l reads the keys and values of sources[l]. Errors: Exit::kData for a source that is no layer; `what` names
    /// the map in messages.
    LayerMap(std::vector<LayerIndex> sources, std::string_view what);
    static LayerMap identity(int64_t layers);
    /// Identity of windowed.size() layers, of which those that are true see a sliding window.
    static LayerMap identity(std::vector<bool> windowed);
    /// Whether every layer reads itself.
    bool is_identity() const { return owners_ == layers(); }
    /// Parses "0_2_2_2_4": one number per layer, with underscores between. An 's' after a number: the layer sees a
    /// sliding window. "2*3", "2s*3": three such layers. Errors: Exit::kData if `text` is no map of `layers` layers.
    static LayerMap parse(std::string_view text, int64_t layers, std::string_view what);

    int64_t layers() const { return static_cast<int64_t>(sources_.size()); }
    int64_t owners() const { return owners_; }
    LayerIndex source(LayerIndex layer) const { return sources_[layer.at()]; }
    /// Whether the layer has keys and values of its own.
    bool owns(LayerIndex layer) const { return number_[layer.at()].i >= 0; }
    /// number(): an owner's number. reads(): the number of the owner that a layer reads; without an argument, of all
    /// layers in order.
    OwnerIndex number(LayerIndex owner) const { return number_[owner.at()]; }
    OwnerIndex reads(LayerIndex layer) const { return number_[source(layer).at()]; }
    std::vector<OwnerIndex> reads() const;
    bool windowed(LayerIndex layer) const { return !windowed_.empty() && windowed_[layer.at()]; }
    /// Whether the layer reads the keys and values of a later one; whether any does.
    bool upward(LayerIndex layer) const { return source(layer) > layer; }
    bool upward() const;
    /// Whether an earlier layer reads this one's keys and values.
    bool read_from_below(LayerIndex layer) const;
    /// The last owner. Later layers only read, so a token whose output is not needed is done with this owner's keys and
    /// values.
    LayerIndex highest_owner() const;
    /// All layers in blocks (reference lckv 1.4). If a layer reads a later one, all layers up to that one, and those
    /// that they read, are iterated. The last layer of such a block is an owner.
    std::vector<LayerBlock> blocks() const;

    /// The map in the form that parse() reads.
    std::string text() const;
    bool operator==(const LayerMap&) const = default;

  private:
    std::vector<LayerIndex> sources_;
    std::vector<OwnerIndex> number_;  // by layer; -1: not an owner
    std::vector<bool> windowed_;      // by layer; empty: none
    int64_t owners_ = 0;
};

}  // namespace trireme
