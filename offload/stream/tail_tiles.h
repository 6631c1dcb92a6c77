#pragma once
/// TailTiles: the two newest tiles of each sequence of each streamed layer, on the device. Decode writes committed rows
/// here. A tile is copied to host memory when it is complete. Until the next tile is also complete, attention reads it
/// from here, so that the copy has time. FullCache uses it. Calls enqueue and return,
/// unless tiles are coded (Transport::store).

#include <cstdint>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"
#include "runtime/index.h"

namespace trireme {

class TailTiles {
  public:
    static constexpr int64_t kPlaces = 2;  // per sequence of a layer: tile t is in place t % 2

    /// Bytes of device memory for the tiles.
    static size_t bytes(const StreamShape& shape) {
        return static_cast<size_t>(shape.layers * shape.sequences * kPlaces) * shape.tile_bytes();
    }
    /// Bytes of device memory for their address tables.
    static size_t table_bytes(const StreamShape& shape) {
        return static_cast<size_t>(shape.layers) *
               Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    /// For a sequence of `length` tokens: tiles below this one are read from host memory, this one and later ones from
    /// here.
    static int64_t first_tile(int64_t length) { return std::max(int64_t{0}, length / kTileTokens - (kPlaces - 1)); }

    TailTiles(Device& device, Transport& transport, const StreamShape& shape);

    size_t bytes() const { return memory_.bytes(); }
    /// The layer's address table, i64 [sequences, tiles]. It never changes; as tiles share places, only the entries
    /// from first_tile() on are valid.
    const Tensor& table(StreamedIndex layer) const { return tables_[layer.at()]; }

    /// To be called before kernels that write the sequence's tokens [first, first + n) of every layer are enqueued:
    /// makes them wait until the places are free.
    void open(int64_t sequence, int64_t first, int64_t n);
    /// To be called after they are enqueued: copies the tiles that are now complete to host memory.
    void written(int64_t sequence, int64_t first, int64_t n);
    /// Cuts a sequence to n tokens: tiles that thereby become the newest are copied back from host memory.
    void truncate(int64_t sequence, int64_t n);
    /// Copies to a sequence the newest tiles of sequence 0, which has `length` tokens, except those that all share.
    /// Complete tiles also go to the sequence's own host memory. Tiles below first_tile(length) must be shared ones:
    /// they are not copied.
    void fork(int64_t sequence, int64_t length);
    /// To be called before kernels that read the newest tiles are enqueued: makes them wait for tiles that truncate()
    /// copies back.
    void use() { transport_.order().wait(Lane::kCompute, returned_); }

    /// Copies the newest tiles from `window` to their places, which must have been opened. To be called when a prefill
    /// has written all tiles of a layer of `length` tokens into the window.
    void adopt(StreamedIndex layer, int64_t sequence, int64_t length, const char* window);
    /// Copies `tiles`, which are here, into `window`, for a prefill that opens the layer.
    void hand_over(StreamedIndex layer, int64_t sequence, const TileRange& tiles, char* window);

    /// The device address of a tile (counted from the sequence's start), if it is one of the two newest.
    char* place(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return static_cast<char*>(memory_.data()) +
               static_cast<size_t>((layer.i * shape_.sequences + sequence) * kPlaces + tile % kPlaces) *
                   shape_.tile_bytes();
    }

  private:
    /// The state of a place, which all layers share.
    struct Held {
        int64_t tile = -1;      // the tile in this place; -1: none
        Ordering::Mark stored;  // the last copy of that tile to host memory
    };
    Held& held(int64_t sequence, int64_t tile) { return held_[index(sequence * kPlaces + tile % kPlaces)]; }
    void store(int64_t sequence, int64_t tile);
    /// body(tile) for the tiles that hold positions [first, first + n).
    template <class Body>
    static void for_tiles(int64_t first, int64_t n, const Body& body) {
        for (int64_t t = first / kTileTokens; n > 0 && t <= (first + n - 1) / kTileTokens; ++t) body(t);
    }

    Transport& transport_;
    StreamShape shape_;
    Buffer<Space::kDevice> memory_;  // [layers, sequences, kPlaces] tiles
    Arena<Space::kDevice> table_memory_;
    std::vector<Tensor> tables_;
    std::vector<Held> held_;                   // [sequences, kPlaces]
    std::vector<Transport::Written> written_;  // of a store
    Ordering::Mark returned_;                  // the last copy back from host memory
};

}  // namespace trireme
