#pragma once
/// The newest tiles of streamed layers, on the device: where rows are written. A tile goes to the host once, when it is
/// complete, and is read from here until it is two tiles old, so that nobody waits for it to come back.

#include <cstdint>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"

namespace trireme {

class Tails {
  public:
    static constexpr int64_t kPlaces = 2;  // of a layer's sequence: tile t lies in place t % 2

    /// Device memory of the tiles, and of their tables.
    static size_t bytes(const StreamShape& shape) {
        return static_cast<size_t>(shape.layers * shape.sequences * kPlaces) * shape.tile_bytes();
    }
    static size_t table_bytes(const StreamShape& shape) {
        return static_cast<size_t>(shape.layers) *
               Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, shape.tiles});
    }
    /// Tiles below this one are read from the host, of a sequence of `length` tokens; from it on, here.
    static int64_t first_tile(int64_t length) { return std::max(int64_t{0}, length / kTileTokens - (kPlaces - 1)); }

    Tails(Device& device, Transport& transport, const StreamShape& shape);

    size_t bytes() const { return memory_.bytes(); }
    /// The table, i64 [sequences, tiles]. It never changes; only its tiles from first_tile() on hold what it says.
    const Tensor& table(StreamedIndex layer) const { return tables_[layer.at()]; }

    /// Work that is about to be enqueued on compute writes positions [first, first + n) of every layer.
    void open(int64_t sequence, int64_t first, int64_t n);
    /// That work has been enqueued: complete tiles go to the host behind it.
    void written(int64_t sequence, int64_t first, int64_t n);
    /// The sequence ends at n now: tiles that became the newest come back.
    void truncate(int64_t sequence, int64_t n);
    /// Work that is about to be enqueued on compute reads the newest tiles.
    void use() { transport_.order().wait(Lane::kCompute, returned_); }

    /// After a prefill that wrote a window of all tiles of a layer: copies of the newest, for `length` tokens, which
    /// have been opened.
    void adopt(StreamedIndex layer, int64_t sequence, int64_t length, const char* window);
    /// The other way, before one: tiles that lie here into the window.
    void hand_over(StreamedIndex layer, int64_t sequence, const TileRange& tiles, char* window);

  private:
    char* place(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return static_cast<char*>(memory_.data()) +
               static_cast<size_t>((layer.i * shape_.sequences + sequence) * kPlaces + tile % kPlaces) *
                   shape_.tile_bytes();
    }
    /// Of all layers alike.
    struct Held {
        int64_t tile = -1;      // which lies there
        Ordering::Mark stored;  // the last copy of it from there to the host
    };
    Held& held(int64_t sequence, int64_t tile) {
        return held_[static_cast<size_t>(sequence * kPlaces + tile % kPlaces)];
    }
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
    std::vector<Held> held_;   // [sequences, kPlaces]
    Ordering::Mark returned_;  // the last tiles that came back
};

}  // namespace trireme
