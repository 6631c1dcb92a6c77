#pragma once
/// StreamShape: the sizes of a rank's streamed KV tiles, which all parts of offload/stream share.

#include <cstddef>
#include <cstdint>

#include "kernels/kv.h"
#include "kernels/tile_code.h"

namespace trireme {

struct StreamShape {
    KvLayout layout;
    int64_t layers = 0;  // streamed layers
    int64_t sequences = 1;
    int64_t tiles = 0;  // per sequence
    // Least size of a span: consecutive tiles of a sequence that are copied at once (TileRing). A sequence with less is
    // one span.
    size_t span_bytes = 0;
    int64_t common = 0;  // leading tiles that all sequences share; they belong to sequence 0
    bool coded = false;  // tiles in host memory and on the link are coded (kernels/tile_code.h)

    size_t tile_bytes() const { return layout.tile_bytes(); }
    /// Bytes of a tile in host memory and on the link.
    size_t stored_bytes() const { return coded ? static_cast<size_t>(tile_code(layout).bytes) : tile_bytes(); }
    /// The number of a layer's tiles, of all sequences. Shared tiles count once.
    int64_t all_tiles() const { return common + sequences * (tiles - common); }
    /// The index of a sequence's tile among all_tiles(), as in frames and digests; HostStore has its own order. A
    /// sequence's own tiles are consecutive.
    int64_t place(int64_t sequence, int64_t tile) const {
        return tile < common ? tile : tile + sequence * (tiles - common);
    }
    /// Bytes of all_tiles().
    size_t layer_bytes() const { return static_cast<size_t>(all_tiles()) * tile_bytes(); }
};

}  // namespace trireme
