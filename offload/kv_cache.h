#pragma once
/// The KV of every owner layer as tiles; rows become tokens by keep(). A layer's tiles lie on the device, or in host
/// memory and pass through the device in every forward.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/kv.h"
#include "offload/prefill_window.h"
#include "offload/tails.h"
#include "offload/tile_ring.h"
#include "offload/transport.h"
#include "runtime/buffer.h"

namespace trireme {

struct KvShape {
    KvLayout layout;
    int64_t owner_layers = 0;
    int64_t sequences = 1;
    int64_t context = 0;  // tokens a sequence may have

    int64_t tiles_per_sequence() const { return (context + kTileTokens - 1) / kTileTokens; }
    size_t layer_bytes() const { return static_cast<size_t>(sequences * tiles_per_sequence()) * layout.tile_bytes(); }
    size_t bytes() const { return static_cast<size_t>(owner_layers) * layer_bytes(); }
};

/// What streaming needs to know where `layers` of the owners are streamed.
StreamShape stream_shape(const KvShape& shape, int64_t layers, size_t span_bytes);

/// Where the tiles live.
struct Residency {
    std::vector<bool> on_chip = {};       // by owner layer; empty: all of them
    std::vector<int64_t> reads = {};      // the owner that each attention of a forward reads, in order; empty: 0, 1, ..
    int64_t ring = 4;                     // slots that streamed tiles pass through, 2 .. 8
    size_t span_bytes = size_t{2} << 20;  // that a slot holds at least: shorter copies leave the link idle
    Link link = {};
    bool hidden_on_host = false;  // a prompt's residual streams, where any layer is streamed
    bool verify = false;          // compare digests of tiles where they are written and where they arrive
};

/// Rows [first, first + rows) of a decode forward, all of one sequence, at positions below `bound`.
struct RowGroup {
    int64_t sequence = 0, first = 0, rows = 0, bound = 0;
};

class KvCache {
  public:
    /// Errors: Exit::kOs when device or host have no room. `stream` is compute's: it fills the address tables and is
    /// where keep() runs.
    KvCache(Device& device, Stream& stream, const KvShape& shape, const Residency& residency = {});
    ~KvCache();

    /// Bytes for tables, staged rows and lists, on the device and pinned, wherever the tiles live.
    static size_t device_meta_bytes(const KvShape& shape);
    static size_t host_meta_bytes();

    const KvShape& shape() const { return shape_; }
    bool on_chip(int64_t owner) const { return streamed_number_[static_cast<size_t>(owner)] < 0; }
    int64_t streamed_layers() const { return streamed_layers_; }
    /// Null where every layer is on chip.
    Ordering* order() { return streaming_ ? &streaming_->transport.order() : nullptr; }
    Transport* transport() { return streaming_ ? &streaming_->transport : nullptr; }
    /// Bytes on the device for layers that live there, and for what streamed ones pass through; and in host memory.
    size_t on_chip_bytes() const { return tiles_.bytes(); }
    size_t passing_bytes() const;
    size_t host_bytes() const;
    size_t span_bytes() const;  // of a copy that is not a sequence's last
    /// From here on streamed tiles travel over another link.
    void imitate_link(const Link& link);

    /// Where rows of one owner layer are staged and kept, and what attention sees of a layer on chip.
    const LayerKv& layer(int64_t owner) const { return layers_[static_cast<size_t>(owner)]; }

    /// A decode forward of these groups begins; attention over each of Residency::reads follows in order, then end().
    void begin(std::span<const RowGroup> groups);
    /// Attention over a streamed layer: part(group, tables, tiles) in the order of kernels.h, as the tiles arrive.
    template <class Part>
    void attend(int64_t owner, const Part& part) {
        const int64_t number = streamed_number_[static_cast<size_t>(owner)];
        for (size_t i = 0; i < groups_.size(); ++i) {
            const RowGroup& group = groups_[i];
            streaming_->ring.attend(number, readings_[i], layer(owner),
                                    [&](const LayerKv& kv, const TileRange& tiles) { part(group, kv, tiles); });
            streaming_->tails.use();
            part(group, layer(owner), TileRange{readings_[i].tiles, kEveryTile});
        }
    }
    void end();

    /// Committed tokens of a sequence.
    int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
    /// Staged rows `rows` become the sequence's next tokens. Enqueues one small kernel a layer.
    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows);
    /// Forgets tokens from position n on; their slots are overwritten later.
    void truncate(int64_t sequence, int64_t n);

    /// A prefill that appends n tokens: layer by layer where any is streamed, then end_prefill(), which commits them.
    void begin_prefill(int64_t sequence, int64_t n);
    /// What kv_append and attention see of an owner layer. `been_through`: all its rows are written; else open_rows()
    /// and rows_written() go round every kv_append. close_layer() follows either way.
    LayerKv open_layer(int64_t owner, bool been_through);
    void open_rows(int64_t owner, int64_t first, int64_t n);
    void rows_written(int64_t owner, int64_t first, int64_t n);
    void close_layer(int64_t owner);
    void end_prefill();

  private:
    struct Streaming {
        Streaming(Device& device, Stream& compute, const StreamShape& shape, std::vector<int64_t> owners,
                  const Residency& residency, std::vector<int64_t> reads);
        ~Streaming();  // waits for copies under way
        Transport transport;
        TileRing ring;
        Tails tails;
        PrefillWindow window;
    };
    /// A keep() list on its way to the device. A small ring of them, so that enqueueing need not wait for the last.
    struct KeptSlot {
        HostTensor host;  // i32 [kMaxRows, 3]
        Tensor device;
        Event free;  // the kernels that read it are done
    };
    static constexpr size_t kKeptSlots = 8;

    void place_on_chip(Device& device);

    KvShape shape_;
    Stream& stream_;
    std::vector<int64_t> streamed_number_;  // by owner layer; -1: on chip
    int64_t streamed_layers_ = 0;
    Buffer<Space::kDevice> tiles_;       // of layers on chip
    Arena<Space::kDevice> device_meta_;  // address tables, staged rows, keep() lists
    Arena<Space::kHost> host_meta_;
    std::unique_ptr<Streaming> streaming_;  // null: every layer is on chip
    std::vector<LayerKv> layers_;
    std::vector<int64_t> lengths_;
    std::vector<RowGroup> groups_;
    std::vector<Reading> readings_;  // of groups_
    std::array<KeptSlot, kKeptSlots> kept_;
    size_t next_kept_ = 0;
    int64_t prefilled_sequence_ = 0, prefilled_ = 0;
};

}  // namespace trireme
