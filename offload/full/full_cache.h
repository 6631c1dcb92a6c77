#pragma once
/// The full cache: attention sees every token. An owner layer's tiles are either on chip, or in host memory and copied
/// to the device in every forward. Attention reads them in index order in both cases, so its results are bitwise
/// identical.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offload/cache.h"
#include "offload/kept_lists.h"
#include "offload/stream/prefill_window.h"
#include "offload/stream/tail_tiles.h"
#include "offload/stream/tile_ring.h"
#include "offload/stream/transport.h"
#include "runtime/buffer.h"

namespace trireme {

/// Sizes for streaming `layers` of the owner layers in spans of at least `span_bytes` bytes.
StreamShape stream_shape(const KvShape& shape, int64_t layers, size_t span_bytes, bool coded);

/// Where the tiles of a cache are stored, and how streamed ones are copied.
struct Residency {
    std::vector<bool> on_chip = {};  // [owner layers] its tiles are on chip; empty: all are
    int64_t ring = 4;                // slots of the ring that streamed tiles pass through, 2 to 8
    int64_t frames = 0;  // streamed layers that may be whole on the device, for several readers (read_runs.h)
    size_t span_bytes = size_t{2} << 20;  // least size of a slot: shorter copies do not fill the link
    Link link = {};
    bool hidden_on_host = false;  // a prompt's residual streams are in host memory; ignored if no layer is streamed
    bool by_layers = false;       // prefill layer by layer even if none is streamed: an observer requires it
    bool verify = false;          // compare digests of tiles when they are written and when they arrive (Transport)
    bool coded = false;           // streamed tiles are coded in host memory and on the link (kernels/tile_code.h)
};

class FullCache final : public KvCache {
  public:
    /// `reads`: the owner that each attention of a forward reads, in order; empty: every owner once. Errors: Exit::kOs
    /// where device or host memory does not suffice.
    FullCache(Device& device, Stream& compute, const KvShape& shape, const Residency& residency = {},
              std::vector<OwnerIndex> reads = {});
    ~FullCache() override;

    /// Memory for address tables, staged rows and keep() lists; it does not depend on the residency.
    static MemoryBytes table_memory(const KvShape& shape);

    bool on_chip(OwnerIndex owner) const { return streamed_[owner.at()].i < 0; }
    int64_t streamed_layers() const { return streamed_layers_; }
    /// An owner's staging buffers, and the tiles that keep() writes: all of its tiles if it is on chip, else the newest
    /// ones (TailTiles).
    const LayerKv& layer(OwnerIndex owner) const { return layers_[owner.at()]; }
    /// The staging buffers of all owners, [owners, kv_heads, kMaxRows, head_dim].
    const Tensor& staged_k() const { return staged_k_; }
    const Tensor& staged_v() const { return staged_v_; }

    KvExtent extent(int64_t sequence) const override { return {.slots = length(sequence)}; }

    void begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads = {}) override;
    void begin_prefill(int64_t sequence, int64_t n) override;
    void begin_layer(OwnerIndex owner, Pass pass) override;
    void end() override;
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
               const Tensor& change = {}) override;
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) override;

    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    void truncate(int64_t sequence, int64_t n) override;
    void fork(int64_t sequence) override;

    /// Serialises the cache's only sequence, wherever its tiles are stored. Reading notifies observers only of a
    /// truncation to 0. Errors: Exit::kInternal for a cache of several sequences; kConfig if the sequence exceeds the
    /// context.
    void state(Archive& ar) override;
    /// Serialises only the tiles of the first n tokens of the cache's only sequence, owner by owner, each tile as in
    /// KvLayout. When writing, n must be the sequence's length. After reading, the sequence has n tokens.
    void tiles(Archive& ar, int64_t n);

  private:
    struct Streaming {
        Streaming(Device& device, Stream& compute, const StreamShape& shape, std::vector<OwnerIndex> owners,
                  const Residency& residency, const std::vector<StreamedIndex>& reads);
        ~Streaming();  // waits for copies in flight
        Transport transport;
        TileRing ring;
        TailTiles tails;
        PrefillWindow window;
    };
    struct Prefill {
        bool running = false;
        int64_t sequence = 0, tokens = 0;
        bool streams = false;  // the current pass is over a streamed layer
        LayerKv open = {};     // that layer
    };

    void end_layer();
    void place_on_chip(Device& device);
    char* tile_on_chip(OwnerIndex owner, int64_t sequence, int64_t tile) const;
    void attend_as_one(Kernels& op, const AttentionCall& call, const LayerKv& kv, const TileRange& tiles) const;
    void attend_prompt(Kernels& op, OwnerIndex owner, const AttentionCall& call);
    void attend_common(Kernels& op, OwnerIndex owner, const AttentionCall& call);
    void passing(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv, const TileRange& part) const;
    void attend_arriving(Kernels& op, OwnerIndex owner, const AttentionCall& call);

    Stream& compute_;
    std::vector<StreamedIndex> streamed_;  // [owner layers] number among the streamed ones; -1: on chip
    int64_t streamed_layers_ = 0;
    Buffer<Space::kDevice> tiles_;         // all tiles of owners on chip
    Arena<Space::kDevice> device_tables_;  // address tables, staged rows
    Tensor staged_k_, staged_v_;
    Tensor zeros_;  // i32 [kMaxRows]: the rows' sequence when they attend tiles that all sequences share
    KeptLists kept_;
    std::unique_ptr<Streaming> streaming_;  // null: every owner is on chip
    std::vector<LayerKv> layers_;           // by owner
    std::vector<RowGroup> groups_;          // groups of the current decode forward
    int64_t rows_ = 0, first_row_ = 0;      // number of its rows without padding; the staged row of the first one
    // Tiles that come from host memory: those that all sequences share, if there are any, then [groups_].
    std::vector<Reading> readings_;
    Prefill prefill_;
};

}  // namespace trireme
