#pragma once
/// The view that sees every token. An owner layer's tiles lie on the device, or in host memory and pass through the
/// device in every forward; attention walks them in index order either way.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offload/stream/prefill_window.h"
#include "offload/stream/tails.h"
#include "offload/stream/tile_ring.h"
#include "offload/stream/transport.h"
#include "offload/view.h"
#include "runtime/buffer.h"

namespace trireme {

/// The sizes that streaming needs to know, where `layers` of the owners are streamed.
StreamShape stream_shape(const KvShape& shape, int64_t layers, size_t span_bytes);

/// Where the tiles live.
struct Residency {
    std::vector<bool> on_chip = {};       // by owner; empty: all of them
    int64_t ring = 4;                     // slots that streamed tiles pass through, 2 .. 8
    size_t span_bytes = size_t{2} << 20;  // that a slot holds at least: shorter copies leave the link idle
    Link link = {};
    bool hidden_on_host = false;  // a prompt's residual streams, where any layer is streamed
    bool verify = false;          // compare digests of tiles where they are written and where they arrive
};

class FullView final : public KvView {
  public:
    /// `reads`: the owner that each attention of a forward reads, in order; empty: every owner once. Errors: Exit::kOs.
    FullView(Device& device, Stream& compute, const KvShape& shape, const Residency& residency = {},
             std::vector<OwnerIndex> reads = {});
    ~FullView() override;

    /// Memory for tables, staged rows and lists, wherever the tiles live.
    static MemoryBytes table_memory(const KvShape& shape);

    bool on_chip(OwnerIndex owner) const { return streamed_[owner.at()].i < 0; }
    int64_t streamed_layers() const { return streamed_layers_; }
    /// Where rows of an owner are staged and kept, and what attention sees of an owner on chip.
    const LayerKv& layer(OwnerIndex owner) const { return layers_[owner.at()]; }

    int64_t cached(int64_t sequence) const override { return length(sequence); }
    MemoryBytes memory() const override;
    using KvView::transport;
    Transport* transport() override { return streaming_ ? &streaming_->transport : nullptr; }

    void begin(std::span<const RowGroup> groups) override;
    void end() override;
    bool recordable(OwnerIndex owner) const override { return on_chip(owner); }
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows) override;
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) override;

    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    void truncate(int64_t sequence, int64_t n) override;

    void begin_prefill(int64_t sequence, int64_t n) override;
    void open_layer(OwnerIndex owner, Pass pass) override;
    void close_layer(OwnerIndex owner) override;
    void end_prefill() override;

  private:
    struct Streaming {
        Streaming(Device& device, Stream& compute, const StreamShape& shape, std::vector<OwnerIndex> owners,
                  const Residency& residency, std::vector<StreamedIndex> reads);
        ~Streaming();  // waits for copies under way
        Transport transport;
        TileRing ring;
        Tails tails;
        PrefillWindow window;
    };
    /// A keep() list on its way to the device. There are several, so that enqueueing need not wait for the last.
    struct KeptSlot {
        HostTensor host;  // i32 [kMaxRows, 3]
        Tensor device;
        Event free;  // the kernels that read it are done
    };
    static constexpr size_t kKeptSlots = 8;
    struct Prefill {
        bool running = false;
        int64_t sequence = 0, tokens = 0;
        LayerKv open;  // of the layer that a pass is going through, where that is streamed
    };

    void place_on_chip(Device& device);
    void attend_arriving(Kernels& op, OwnerIndex owner, const AttentionCall& call);

    Stream& compute_;
    std::vector<StreamedIndex> streamed_;  // by owner; -1: on chip
    int64_t streamed_layers_ = 0;
    Buffer<Space::kDevice> tiles_;         // of owners on chip
    Arena<Space::kDevice> device_tables_;  // address tables, staged rows, keep() lists
    Arena<Space::kHost> host_tables_;
    std::unique_ptr<Streaming> streaming_;  // null: every owner is on chip
    std::vector<LayerKv> layers_;           // by owner
    std::vector<RowGroup> groups_;          // of the decode forward
    std::vector<Reading> readings_;         // of groups_
    std::array<KeptSlot, kKeptSlots> kept_;
    size_t next_kept_ = 0;
    Prefill prefill_;
};

/// Makes full views with this residency.
ViewMaker full_view(const Residency& residency);

}  // namespace trireme
