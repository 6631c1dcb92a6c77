#pragma once
/// A prefill goes through a streamed layer with all of its tiles at hand, in the ring's memory: each is produced, used
/// and stored once, and the next layer's takes its place. A prompt may pass through a layer several times: each pass
/// that writes produces the tiles anew, and the last one's are what is stored.

#include <cstdint>
#include <vector>

#include "offload/stream/tails.h"
#include "offload/stream/tile_ring.h"
#include "offload/stream/transport.h"

namespace trireme {

class PrefillWindow {
  public:
    static size_t table_bytes(const StreamShape& shape) {
        return Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    PrefillWindow(Device& device, Transport& transport, TileRing& ring, Tails& tails, const StreamShape& shape);

    /// A prefill begins that makes `before` tokens of a sequence `after`.
    void begin(int64_t sequence, int64_t before, int64_t after);
    /// A pass goes through a layer. Its tiles are brought if they do not lie here: of all tokens where the pass only
    /// reads what an earlier one has written, else of the tokens from before the prefill. The window's table: i64
    /// [sequences, tiles].
    const Tensor& open(StreamedIndex layer, bool writes);
    /// Work that is about to be enqueued on compute writes positions [first, first + n) of the open layer.
    void open_rows(int64_t first, int64_t n);
    /// That work has been enqueued: complete tiles go to the host behind it, whole spans at a time.
    void rows_written(int64_t first, int64_t n);
    /// All work on the open layer has been enqueued: the window's memory is free for the next layer, or for decoding.
    void close();

  private:
    char* at(int64_t tile) const { return ring_.memory() + static_cast<size_t>(tile) * shape_.tile_bytes(); }
    void bring(StreamedIndex layer, int64_t tokens);
    void store_up_to(int64_t tile);

    Transport& transport_;
    TileRing& ring_;
    Tails& tails_;
    StreamShape shape_;
    std::vector<bool> written_;  // by layer: a pass of this prefill has
    Arena<Space::kDevice> table_memory_;
    Tensor table_;
    int64_t sequence_ = 0, before_ = 0, after_ = 0;
    StreamedIndex layer_{-1};  // whose tiles lie here
    bool writes_ = false;      // they are being produced
    int64_t stored_ = 0;       // its tiles below this one are stored, or were
};

}  // namespace trireme
