#pragma once
/// The window of a layer-by-layer prefill: the ring's memory, which holds all tiles of one streamed layer. Each tile is
/// computed, read and copied to host memory once; then the next layer's tiles replace it. A prompt may need several
/// passes over a layer: each writing pass computes the tiles again, and host memory keeps those of the last one.

#include <cstdint>
#include <vector>

#include "offload/stream/tail_tiles.h"
#include "offload/stream/tile_ring.h"
#include "offload/stream/transport.h"

namespace trireme {

class PrefillWindow {
  public:
    static size_t table_bytes(const StreamShape& shape) {
        return Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    PrefillWindow(Device& device, Transport& transport, TileRing& ring, TailTiles& tails, const StreamShape& shape);

    /// Begins a prefill that extends a sequence from `before` to `after` tokens.
    void begin(int64_t sequence, int64_t before, int64_t after);
    /// Begins a pass over a layer. Returns the window's address table, i64 [sequences, tiles]. Unless the window holds
    /// the layer's tiles already, they are fetched: those of the `before` tokens if the pass writes and stores, else
    /// all. A pass that writes and does not store leaves its tiles in the window for a later pass. They go to host
    /// memory only if another layer needs the window first.
    const Tensor& open(StreamedIndex layer, bool writes, bool stores = true);
    /// To be called before kernels that write positions [first, first + n) of the open layer are enqueued: makes them
    /// wait until that memory is free.
    void open_rows(int64_t first, int64_t n);
    /// To be called after they are enqueued: copies complete tiles to host memory, whole spans at a time.
    void rows_written(int64_t first, int64_t n);
    /// Ends the pass; to be called after all of its kernels are enqueued. The next layer, or decode, may then use the
    /// memory.
    void close();

    /// Where the open layer's tile is to be written.
    char* at(int64_t tile) const { return ring_.memory() + static_cast<size_t>(tile) * shape_.tile_bytes(); }

  private:
    void bring(StreamedIndex layer, int64_t tokens);
    void store_up_to(int64_t tile);
    void store_all();

    Transport& transport_;
    TileRing& ring_;
    TailTiles& tails_;
    StreamShape shape_;
    std::vector<bool> written_;  // [streamed layers] a pass of this prefill has written it
    Arena<Space::kDevice> table_memory_;
    Tensor table_;
    int64_t sequence_ = 0, before_ = 0, after_ = 0;
    StreamedIndex layer_{-1};  // the layer whose tiles the window holds; -1: none
    bool writes_ = false;      // the open pass writes them
    bool stores_ = true;       // and stores them
    bool unstored_ = false;    // the window holds tiles that a pass has written and not stored
    int64_t stored_ = 0;       // tiles below this one are in host memory
};

}  // namespace trireme
