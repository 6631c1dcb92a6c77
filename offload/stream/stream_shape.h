#pragma once
/// Sizes that all parts of offload/stream share.

#include <cstddef>
#include <cstdint>

#include "kernels/kv.h"

namespace trireme {

struct StreamShape {
    KvLayout layout;
    int64_t layers = 0;  // streamed layers
    int64_t sequences = 1;
    int64_t tiles = 0;      // per sequence
    size_t span_bytes = 0;  // least size of a span, unless a sequence has fewer tiles
    int64_t common = 0;     // leading tiles that all sequences share; they belong to sequence 0

    size_t tile_bytes() const { return layout.tile_bytes(); }
    /// The number of tiles of a layer, for all sequences; the index of a sequence's tile among them. A sequence's own
    /// tiles are consecutive.
    int64_t all_tiles() const { return common + sequences * (tiles - common); }
    int64_t place(int64_t sequence, int64_t tile) const {
        return tile < common ? tile : tile + sequence * (tiles - common);
    }
    size_t layer_bytes() const { return static_cast<size_t>(all_tiles()) * tile_bytes(); }
};

}  // namespace trireme
