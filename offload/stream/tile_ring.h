#pragma once
/// A ring buffer in device memory for tiles from host memory. A slot holds a span, which is a run of consecutive tiles.
/// Slots are filled in the order in which the attentions of a forward read them, and then those of the next forward.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"

namespace trireme {

/// In a forward every streamed layer reads tiles [0, tiles) of the sequence from host memory.
struct Reading {
    int64_t sequence = 0, tiles = 0;
    bool operator==(const Reading&) const = default;
};

class TileRing {
  public:
    static constexpr size_t kMaxSlots = 8;

    /// Tiles of a span: enough that the ring holds one sequence of a layer, and that a span has at least
    /// shape.span_bytes bytes.
    static int64_t span_tiles(const StreamShape& shape, int64_t slots);
    /// Bytes of device memory: of a ring, and of its address tables.
    static size_t bytes(const StreamShape& shape, int64_t slots);
    static size_t table_bytes(const StreamShape& shape, int64_t slots);

    /// `reads`: the streamed layer that each attention of a forward reads, in order. Attentions that follow each other
    /// and read one layer read its spans as they were fetched once, where the ring has a slot for each.
    TileRing(Device& device, Transport& transport, const StreamShape& shape, int64_t slots,
             const std::vector<StreamedIndex>& reads);

    /// Begins a forward of which each attention reads `readings`. Spans fetched ahead are used as far as they match.
    void begin(std::span<const Reading> readings);
    /// Attention of the next layer in `reads` over one sequence: calls part(kv, tiles) for each span, whose kernels
    /// then run after the span's arrival. `kv` gives layout and staged rows; part() gets it with the span's tiles.
    template <class Part>
    void attend(StreamedIndex layer, const Reading& reading, LayerKv kv, const Part& part) {
        for (int64_t first = 0; first < reading.tiles; first += span_) {
            const TileRange tiles{first, std::min(first + span_, reading.tiles)};
            kv.tiles = arrive(layer, reading.sequence, tiles);
            kv.first_tile = tiles.first;
            part(kv, tiles);
            leave();
        }
        attended();
    }
    /// What forwards read from the next one on.
    void set_reads(const std::vector<StreamedIndex>& reads);
    /// To be called after the forward's attentions are enqueued: fetches spans for the next forward into the free
    /// slots.
    void end();
    /// Discards spans that were fetched and not used yet: tiles have changed, or the memory is needed for a prefill.
    void forget();

    size_t bytes() const { return memory_.bytes(); }
    /// The ring's memory as the contiguous tiles of one layer, for a prefill (PrefillWindow).
    char* memory() const { return static_cast<char*>(memory_.data()); }
    int64_t span() const { return span_; }
    /// Makes `lane` wait until the slots that hold these tiles of the window may be overwritten.
    void claim(Lane lane, const TileRange& tiles);
    /// Notes that what `lane` has enqueued so far uses these slots: fills (kH2d), reads (kCompute) or stores them
    /// (kD2h).
    void release(Lane lane, const TileRange& tiles);

  private:
    struct Slot {
        Tensor table;  // i64 [sequences, span]: the slot's own tiles
        StreamedIndex layer{-1};
        int64_t sequence = -1;
        TileRange tiles{0, 0};
        Ordering::Mark filled, read, stored;  // last copy in, last read by compute, last copy out
    };
    /// Attentions that follow each other and read one layer.
    struct Run {
        StreamedIndex layer;
        int64_t attentions = 0;
    };
    /// A span of the forward: attention `attention` of runs_[run], sequence readings_[reading], tiles from `first` on.
    struct Cursor {
        size_t run = 0;
        int64_t attention = 0;
        size_t reading = 0;
        int64_t first = 0;
    };

    Slot& slot(uint64_t turn) { return slots_[turn % slots_.size()]; }
    bool at_end() const { return next_.run == runs_.size(); }
    /// Whether the spans of the attention under way stay for the next one.
    bool stay() const { return holds_ && attending_.attention + 1 < runs_[attending_.run].attentions; }
    void attended();
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
    std::vector<Run> runs_;
    Buffer<Space::kDevice> memory_;
    Arena<Space::kDevice> tables_;
    std::vector<Slot> slots_;
    std::vector<Reading> readings_;
    bool holds_ = false;               // the readings' spans have a slot each: a run fetches them once
    Cursor next_;                      // to be fetched
    Cursor attending_;                 // the attention under way: its run, number and reading
    uint64_t fetched_ = 0, used_ = 0;  // spans since construction; fetched_ - used_ are in the ring
    uint64_t passed_ = 0;              // spans from used_ on that the attention under way has read, and that stay
};

}  // namespace trireme
