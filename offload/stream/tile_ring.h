#pragma once
/// Device memory that host tiles pass through: slots of a span of tiles each, filled in the order in which the layers
/// of a forward will read them, and the next forward's after its last.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"

namespace trireme {

/// Tiles [0, tiles) of a sequence are read from the host by every streamed layer of a forward.
struct Reading {
    int64_t sequence = 0, tiles = 0;
    bool operator==(const Reading&) const = default;
};

class TileRing {
  public:
    static constexpr size_t kMaxSlots = 8;

    /// A span is long enough that the ring holds a layer, and that the link works at full speed.
    static int64_t span_tiles(const StreamShape& shape, int64_t slots);
    /// Device memory of a ring, and of its tables.
    static size_t bytes(const StreamShape& shape, int64_t slots);
    static size_t table_bytes(const StreamShape& shape, int64_t slots);

    /// `reads`: the streamed layer that each attention of a forward reads, in order.
    TileRing(Device& device, Transport& transport, const StreamShape& shape, int64_t slots,
             std::vector<StreamedIndex> reads);

    /// A forward begins, each of whose attentions will read these. Spans that were fetched ahead for it are used.
    void begin(std::span<const Reading> readings);
    /// Attention of the next layer to be read, over one sequence: part(tables, tiles) for each span, enqueued on
    /// compute behind its arrival. `kv` gives layout and staged rows.
    template <class Part>
    void attend(StreamedIndex layer, const Reading& reading, LayerKv kv, const Part& part) {
        for (int64_t first = 0; first < reading.tiles; first += span_) {
            const TileRange tiles{first, std::min(first + span_, reading.tiles)};
            kv.tiles = arrive(layer, reading.sequence, tiles);
            kv.first_tile = tiles.first;
            part(kv, tiles);
            leave();
        }
    }
    /// The forward's attentions are enqueued: fetches for the next one, as far as there is room.
    void end();
    /// Spans that were fetched and not used yet are thrown away: tiles have changed, or their memory is wanted for
    /// something else.
    void forget();

    size_t bytes() const { return memory_.bytes(); }
    /// The memory as one layer's tiles, for a prefill.
    char* memory() const { return static_cast<char*>(memory_.data()); }
    int64_t span() const { return span_; }
    /// Work that is about to be enqueued, on compute or on the link, writes the slots that hold these tiles of the
    /// window.
    void claim(Lane lane, const TileRange& tiles);
    /// All work that reads these tiles, or stores them, has been enqueued: their slots may be written behind it.
    void release(Lane lane, const TileRange& tiles);

  private:
    struct Slot {
        Tensor table;  // i64 [sequences, span]: the slot's own tiles
        StreamedIndex layer{-1};
        int64_t sequence = -1;
        TileRange tiles{0, 0};
        Ordering::Mark filled, read, stored;  // the last of each
    };
    /// The next span to be fetched: attention `read` of the forward, sequence `reading`, tiles from `first` on.
    struct Cursor {
        size_t read = 0, reading = 0;
        int64_t first = 0;
    };

    Slot& slot(uint64_t turn) { return slots_[turn % slots_.size()]; }
    bool at_end() const { return next_.read == reads_.size(); }
    TileRange tiles_at(const Cursor& at) const;
    void advance(Cursor& at) const;
    void skip_empty(Cursor& at) const;
    void fetch_ahead();
    void fetch(Slot& slot, const TileRange& tiles);
    Tensor arrive(StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    void leave();

    Transport& transport_;
    StreamShape shape_;
    int64_t span_;
    std::vector<StreamedIndex> reads_;
    Buffer<Space::kDevice> memory_;
    Arena<Space::kDevice> tables_;
    std::vector<Slot> slots_;
    std::vector<Reading> readings_;
    Cursor next_;
    uint64_t fetched_ = 0, used_ = 0;  // spans ever; fetched_ - used_ of them are in the ring
};

}  // namespace trireme
