#pragma once
/// TileRing: device memory that tiles from host memory pass through in decode forwards. It has a ring of slots, and
/// frames for layers that several attentions of a forward read. A slot holds a span, which is a run of consecutive
/// tiles. A frame holds all of a layer's tiles, span by span. Spans are fetched in the order in which attentions read
/// them, as far ahead as there is room, also for the next forward. Calls enqueue and return.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/stream/read_runs.h"
#include "offload/stream/transport.h"
#include "runtime/buffer.h"

namespace trireme {

/// Tiles of a sequence that every attention of a streamed layer reads from host memory in a forward.
struct Reading {
    int64_t sequence = 0;
    TileRange tiles = {0, 0};
    bool operator==(const Reading&) const = default;
};

class TileRing {
  public:
    static constexpr size_t kMaxSlots = 8;

    /// The number of tiles of a span: enough that the ring holds one sequence's tiles of a layer, and that a span has
    /// shape.span_bytes bytes; at most a sequence's tiles.
    static int64_t span_tiles(const StreamShape& shape, int64_t slots);
    /// Whether the ring has room for all that the longest forward reads of a layer.
    static bool holds_a_layer(const StreamShape& shape, int64_t slots);
    /// Bytes of device memory of a ring.
    static size_t bytes(const StreamShape& shape, int64_t slots);
    /// Bytes of device memory of `frames` frames.
    static size_t frame_bytes(const StreamShape& shape, int64_t frames);
    /// Bytes of device memory of the address tables of both.
    static size_t table_bytes(const StreamShape& shape, int64_t slots, int64_t frames);

    /// `reads`: the streamed layer that each attention of a forward reads, in order; other layers are not listed.
    /// `slots`: 2 to kMaxSlots.
    TileRing(Device& device, Transport& transport, const StreamShape& shape, int64_t slots, int64_t frames,
             const std::vector<StreamedIndex>& reads);

    /// Begins a forward in which each attention of a streamed layer reads `readings`, in this order. Spans fetched
    /// ahead are used as far as they match.
    void begin(std::span<const Reading> readings);
    /// Attends `layer`, the next one in `reads`, over `reading`, the next of the readings: calls part(kv, tiles) for
    /// each span. The kernels that part() enqueues run after the span's arrival. `kv` gives layout and staged rows;
    /// part() receives it with the span's tiles.
    template <class Part>
    void attend(StreamedIndex layer, const Reading& reading, LayerKv kv, const Part& part) {
        for (TileRange tiles{reading.tiles.first, 0}; tiles.first < reading.tiles.end; tiles.first = tiles.end) {
            tiles = arrive(layer, reading, tiles.first, kv);
            part(kv, tiles);
            leave();
        }
        attended();
    }
    /// Sets the streamed layer that each attention reads, in order, from the next forward on.
    void set_reads(const std::vector<StreamedIndex>& reads) {
        runs_ = read_runs(reads, static_cast<int64_t>(frames_.size()), holds_a_layer_);
    }
    /// To be called after the forward's attentions are enqueued: fetches spans for the next forward into the free
    /// slots and frames.
    void end();
    /// Discards spans that were fetched and not used yet: tiles have changed, or the memory is needed for a prefill.
    void forget();

    size_t bytes() const { return memory_.bytes() + frame_memory_.bytes(); }
    /// The ring's memory as the contiguous tiles of one layer and sequence, for a prefill (PrefillWindow).
    char* memory() const { return static_cast<char*>(memory_.data()); }
    /// span_tiles() of this ring.
    int64_t span() const { return span_; }
    /// For PrefillWindow: makes `lane` wait until the slots that hold these tiles of the window may be overwritten.
    void claim(Lane lane, const TileRange& tiles);
    /// For PrefillWindow: records that the work on `lane` so far uses these slots. It fills (kH2d), reads or writes
    /// (kCompute) or stores them (kD2h).
    void release(Lane lane, const TileRange& tiles);
    /// Likewise, for work that ends at a known mark.
    void release(Lane lane, const TileRange& tiles, const Ordering::Mark& mark);

  private:
    struct Slot {
        Tensor table;                         // i64 [sequences, span]: the slot's own tiles
        Ordering::Mark filled, read, stored;  // last copy in, last read by compute, last copy out
    };
    struct Frame {
        Tensor table;         // i64 [sequences, tiles]
        Ordering::Mark read;  // last read by compute
        bool taken = false;   // it holds, or is about to receive, spans that are still to be read
    };
    /// A span that has been fetched, and that some attentions have not read yet.
    struct Span {
        StreamedIndex layer{-1};
        int64_t sequence = -1;
        TileRange tiles{0, 0};
        int64_t frame = -1;  // the frame that holds it; -1: slot(turn) of the ring
        uint64_t turn = 0;   // its number among all spans that were fetched into the ring
        Ordering::Mark filled;
    };
    /// A span of the forward: attention `attention` of runs_[run], readings_[reading], tiles from `tile` on.
    struct Cursor {
        size_t run = 0;
        int64_t attention = 0;
        size_t reading = 0;
        int64_t tile = -1;   // -1: the reading's first
        bool begun = false;  // it is not the first span of its run
    };

    Slot& slot(uint64_t turn) { return slots_[turn % slots_.size()]; }
    Span& span(uint64_t number) { return spans_[number % spans_.size()]; }
    const ReadRun& attended_run() const { return runs_[attending_.run]; }
    bool at_end() const { return next_.run == runs_.size(); }
    /// Whether the current attention finds its layer in a frame, where an earlier attention has fetched it.
    bool in_frame() const { return attended_run().held() && !(attended_run().first && attending_.attention == 0); }
    /// Whether the spans of the current attention remain in the ring for the next one.
    bool stay() const { return holds_ && attending_.attention + 1 < attended_run().attentions; }
    bool room() const;
    void attended();
    int64_t fetches(const ReadRun& run) const;
    TileRange tiles_at(const Cursor& at) const;
    void advance(Cursor& at) const;
    void seek(Cursor& at) const;
    void discard_from(uint64_t number);
    void fetch_ahead();
    void fetch(Span& span, const TileRange& tiles);
    TileRange arrive(StreamedIndex layer, const Reading& reading, int64_t first, LayerKv& kv);
    void leave();

    Transport& transport_;
    StreamShape shape_;
    int64_t span_;
    bool holds_a_layer_;
    std::vector<ReadRun> runs_;
    Buffer<Space::kDevice> memory_, frame_memory_;
    Arena<Space::kDevice> tables_;
    std::vector<Slot> slots_;
    std::vector<Frame> frames_;
    std::vector<Reading> readings_;
    bool holds_ = false;  // the readings' spans have a slot each: a run fetches them once
    Cursor next_;         // the next span to fetch
    Cursor attending_;    // the current attention: its run, number and reading
    std::vector<Span> spans_;
    uint64_t fetched_ = 0, used_ = 0;      // spans since construction; fetched_ - used_ are held
    uint64_t turns_ = 0, turns_used_ = 0;  // likewise, only spans in the ring
    uint64_t passed_ = 0;                  // spans from used_ on that the current attention has read, and that remain
};

}  // namespace trireme
