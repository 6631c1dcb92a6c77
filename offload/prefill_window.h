#pragma once
/// A prefill goes through a streamed layer with all of its tiles at hand, in the ring's memory: each is produced, used
/// and stored once, and the next layer's takes its place.

#include <cstdint>

#include "offload/tails.h"
#include "offload/tile_ring.h"
#include "offload/transport.h"

namespace trireme {

class PrefillWindow {
  public:
    static size_t table_bytes(const StreamShape& shape) {
        return Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    PrefillWindow(Device& device, Transport& transport, TileRing& ring, Tails& tails, const StreamShape& shape);

    /// A prefill begins that makes `before` tokens of a sequence `after`.
    void begin(int64_t sequence, int64_t before, int64_t after);
    /// Brings a layer's tiles of the tokens it has: all of them where it has been through, else those from before.
    /// `tiles`: i64 [sequences, tiles], the table of the window.
    const Tensor& open(int64_t layer, bool been_through);
    /// Compute is about to write positions [first, first + n) of the open layer.
    void open_rows(int64_t first, int64_t n);
    /// It has been given that work: what is complete goes to the host, whole spans at a time.
    void rows_written(int64_t first, int64_t n);
    /// Compute has been given all it does to the open layer: the window is the next one's, or decode's.
    void close();

  private:
    char* at(int64_t tile) const { return ring_.memory() + static_cast<size_t>(tile) * shape_.tile_bytes(); }
    void store_up_to(int64_t tile);

    Transport& transport_;
    TileRing& ring_;
    Tails& tails_;
    StreamShape shape_;
    Arena<Space::kDevice> table_memory_;
    Tensor table_;
    int64_t sequence_ = 0, before_ = 0, after_ = 0;
    int64_t layer_ = -1;   // whose tiles lie here
    bool writes_ = false;  // they are being produced
    int64_t stored_ = 0;   // its tiles below this one are stored, or were
};

}  // namespace trireme
