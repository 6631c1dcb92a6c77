#pragma once
/// The window of a layer-by-layer prefill: the ring's memory, which holds one sequence's tiles of one streamed layer.
/// Complete tiles are copied to host memory; then the next layer's tiles replace them. If a layer needs several passes,
/// each writing pass computes its tiles again; in the end host memory holds those of the last one. FullCache uses it.
/// Calls enqueue and return, unless tiles are coded (Transport::store).

#include <cstdint>
#include <vector>

#include "offload/stream/tail_tiles.h"
#include "offload/stream/tile_ring.h"
#include "offload/stream/transport.h"

namespace trireme {

class PrefillWindow {
  public:
    /// Bytes of device memory for the address table. The tiles are in the ring's memory.
    static size_t table_bytes(const StreamShape& shape) {
        return Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    PrefillWindow(Device& device, Transport& transport, TileRing& ring, TailTiles& tails, const StreamShape& shape);

    /// Begins a prefill that extends a sequence from `before` to `after` tokens. Discards what the ring has fetched.
    void begin(int64_t sequence, int64_t before, int64_t after);
    /// Begins a pass over a layer. Returns the window's address table, i64 [sequences, tiles]: its rows are equal,
    /// since the window holds one sequence. If the window does not hold the layer, its existing tiles are fetched. A
    /// pass that writes and stores needs only those of the `before` tokens. Another pass may read or compare with any,
    /// so it gets all that earlier passes stored.
    ///
    /// `stores` is false if the pass will be repeated (KvCache::set_provisional). Such a pass leaves its tiles in the
    /// window for a later one. They are copied to host memory only if another layer needs the window first.
    const Tensor& open(StreamedIndex layer, bool writes, bool stores = true);
    /// To be called before kernels that write the open layer's tokens [first, first + n) are enqueued: makes them wait
    /// until that memory is free. `first` counts from the sequence's start.
    void open_rows(int64_t first, int64_t n);
    /// To be called after they are enqueued: if the pass stores, copies complete tiles to host memory, in the
    /// spans of TileRing.
    void rows_written(int64_t first, int64_t n);
    /// Ends the pass; to be called after all of its kernels are enqueued. If it writes and stores, copies the other
    /// complete tiles to host memory and the newest tiles to TailTiles. The next layer, or decode, may then use the
    /// memory.
    void close();

    /// The device address of the open layer's tile number `tile`, counted from the sequence's start.
    char* at(int64_t tile) const { return ring_.memory() + static_cast<size_t>(tile) * shape_.tile_bytes(); }

  private:
    void bring(StreamedIndex layer, int64_t tokens);
    void store_up_to(int64_t tile);
    void store_all();

    Transport& transport_;
    TileRing& ring_;
    TailTiles& tails_;
    StreamShape shape_;
    std::vector<bool> written_;  // [streamed layers] a pass of this prefill has stored it
    Arena<Space::kDevice> table_memory_;
    Tensor table_;
    int64_t sequence_ = 0, before_ = 0, after_ = 0;
    StreamedIndex layer_{-1};  // the layer whose tiles the window holds; -1: none
    bool writes_ = false;      // the open pass writes tiles
    bool stores_ = true;       // the open pass stores what it writes
    bool unstored_ = false;    // the window holds tiles that a pass has written and not stored
    int64_t stored_ = 0;       // in a writing pass: the layer's tiles below this one are in host memory
};

}  // namespace trireme
