#include "offload/full/full_cache.h"

#include <algorithm>
#include <utility>

#include "offload/stream/raw_bytes.h"
#include "offload/stream/table_writer.h"
#include "offload/upload.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

Shape table_shape(const KvShape& s) {
    return {s.sequences, s.tiles_per_sequence()};
}
size_t staged_bytes(const KvShape& s, DType type) {
    return DeviceArena::bytes_of(stored_type(type), s.layout.staged_shape(type, s.owner_layers));
}
/// An owner's part of these buffers.
Tensor staged_of(const Tensor& all, OwnerIndex owner) {
    const Tensor one = all.slice_rows(owner.i, 1);
    return Tensor(one.data(), one.dtype(), {all.dim(1), all.dim(2), all.dim(3)});
}

/// The owners that are streamed, in order.
std::vector<OwnerIndex> streamed_owners(const std::vector<StreamedIndex>& numbers) {
    std::vector<OwnerIndex> owners;
    for (size_t owner = 0; owner < numbers.size(); ++owner) {
        if (numbers[owner].i >= 0) owners.emplace_back(static_cast<int64_t>(owner));
    }
    return owners;
}

/// The owner that each attention reads; by default every owner once.
std::vector<OwnerIndex> reads_or_all(std::vector<OwnerIndex> reads, int64_t owners) {
    if (!reads.empty()) return reads;
    for (OwnerIndex owner; owner.i < owners; ++owner) reads.push_back(owner);
    return reads;
}

}  // namespace

MemoryBytes FullCache::table_memory(const KvShape& s) {
    return MemoryBytes{.device =
                           DeviceArena::bytes_of(DType::kI32, {kMaxRows}) +
                           static_cast<size_t>(s.owner_layers) * DeviceArena::bytes_of(DType::kI64, table_shape(s)) +
                           staged_bytes(s, s.layout.k_type) + staged_bytes(s, s.layout.v_type)} +
           KeptLists::memory();
}

FullCache::Streaming::Streaming(Device& device, Stream& compute, const StreamShape& shape,
                                std::vector<OwnerIndex> owners, const Residency& residency,
                                const std::vector<StreamedIndex>& reads)
    : transport(device, compute, shape, std::move(owners), residency.link, residency.verify),
      ring(device, transport, shape, residency.ring, residency.frames, reads),
      tails(device, transport, shape),
      window(device, transport, ring, tails, shape) {}

FullCache::Streaming::~Streaming() {
    transport.drain();
}

StreamShape stream_shape(const KvShape& shape, int64_t layers, size_t span_bytes, bool coded) {
    return {.layout = shape.layout,
            .layers = layers,
            .sequences = shape.sequences,
            .tiles = shape.tiles_per_sequence(),
            .span_bytes = span_bytes,
            .common = shape.common_tiles(),
            .coded = coded};
}

FullCache::FullCache(Device& device, Stream& compute, const KvShape& kv, const Residency& residency,
                     std::vector<OwnerIndex> reads)
    : KvCache(kv, {.in_order = true}),
      compute_(compute),
      streamed_(number_streamed(kv.owner_layers, residency.on_chip)),
      streamed_layers_(std::ranges::count_if(streamed_, [](StreamedIndex n) { return n.i >= 0; })),
      tiles_(device, static_cast<size_t>(kv.owner_layers - streamed_layers_) * kv.layer_bytes()),
      device_tables_(device, table_memory(kv).device),
      staged_k_(device_tables_.take(stored_type(kv.layout.k_type),
                                    kv.layout.staged_shape(kv.layout.k_type, kv.owner_layers))),
      staged_v_(device_tables_.take(stored_type(kv.layout.v_type),
                                    kv.layout.staged_shape(kv.layout.v_type, kv.owner_layers))),
      zeros_(device_tables_.take(DType::kI32, {kMaxRows})),
      kept_(device, compute),
      streaming_(streamed_layers_ == 0
                     ? nullptr
                     : std::make_unique<Streaming>(
                           device, compute, stream_shape(kv, streamed_layers_, residency.span_bytes, residency.coded),
                           streamed_owners(streamed_), residency,
                           streamed_reads(reads_or_all(reads, kv.owner_layers), streamed_))) {
    for (OwnerIndex owner; owner.i < kv.owner_layers; ++owner) {
        layers_.push_back({.layout = kv.layout,
                           .tiles = on_chip(owner) ? device_tables_.take(DType::kI64, table_shape(kv))
                                                   : streaming_->tails.table(streamed_[owner.at()]),
                           .staged_k = staged_of(staged_k_, owner),
                           .staged_v = staged_of(staged_v_, owner)});
    }
    check(kv.common % kTileTokens == 0 && kv.common < kv.context, "kv: {} of {} tokens in common", kv.common,
          kv.context);
    groups_.reserve(kMaxRows);
    readings_.reserve(kMaxRows + 1);
    facts_.by_layers = residency.by_layers || streaming_;
    if (streaming_) {
        for (const StreamedIndex n : streamed_) facts_.varies.push_back(n.i >= 0);
    }
    facts_.memory = {.device = tiles_.bytes()};
    if (streaming_) {
        facts_.transport = &streaming_->transport;
        facts_.memory += {.device = streaming_->ring.bytes() + streaming_->tails.bytes(),
                          .host = streaming_->transport.host_bytes()};
    }
    place_on_chip(device);
    Upload(device, compute).operator()<int32_t>(zeros_, [](int64_t, int64_t) { return 0; });
}

FullCache::~FullCache() = default;

/// An owner's tiles are contiguous, in the order of KvShape::tile; so are the owners on chip.
char* FullCache::tile_on_chip(OwnerIndex owner, int64_t sequence, int64_t tile) const {
    const auto before =
        std::count_if(streamed_.begin(), streamed_.begin() + owner.i, [](StreamedIndex n) { return n.i < 0; });
    return static_cast<char*>(tiles_.data()) + static_cast<size_t>(before) * shape().layer_bytes() +
           static_cast<size_t>(shape().tile(sequence, tile)) * shape().layout.tile_bytes();
}

/// Fills the address tables of the owners on chip.
void FullCache::place_on_chip(Device& device) {
    TableWriter tables(device, compute_, table_shape(shape()));
    for (OwnerIndex owner; owner.i < shape().owner_layers; ++owner) {
        if (!on_chip(owner)) continue;
        tables.write(layer(owner).tiles, [&](int64_t sequence, int64_t t) { return tile_on_chip(owner, sequence, t); });
    }
}

void FullCache::begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads) {
    for (const RowGroup& g : groups) {
        for (KvObserver* f : observers(g.sequence)) f->begin(g.sequence, length(g.sequence));
    }
    groups_.assign(groups.begin(), groups.end());
    rows_ = groups.back().first + groups.back().rows;
    first_row_ = staged().size() - rows_;
    if (!streaming_) return;
    if (!reads.empty()) streaming_->ring.set_reads(streamed_reads(reads, streamed_));
    readings_.clear();
    const int64_t common = shape().common_tiles();
    if (common > 0) readings_.push_back({0, {0, common}});
    for (const RowGroup& g : groups) {
        readings_.push_back({g.sequence, {common, std::max(common, TailTiles::first_tile(length(g.sequence)))}});
    }
    streaming_->ring.begin(readings_);
}

void FullCache::write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                      const Tensor& change) {
    if (!prefill_.running) return op.kv_stage(layer(owner), k, v, rows);
    const int64_t n = k.rows(), first = rows.max_slots - n;
    const LayerKv& kv = on_chip(owner) ? layer(owner) : prefill_.open;
    if (!on_chip(owner)) streaming_->window.open_rows(first, n);
    op.kv_append(kv, k, v, rows, change);
    if (!on_chip(owner)) streaming_->window.rows_written(first, n);
    written(op, owner, prefill_.sequence, kv, first, n);
}

// Observers are not notified in passes that will be repeated.
void FullCache::attend(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    if (prefill_.running) return attend_prompt(op, owner, a);
    for (const RowGroup& g : groups_) {
        // A recorded call is of one sequence, and with padding.
        const KvObserver::Queries queries = {.q = recordable(owner) ? a.q : a.q.slice_rows(g.first, g.rows),
                                             .first = first_row_ + g.first};
        for (KvObserver* f : observers(g.sequence)) {
            if (!provisional()) f->query(op, owner, a.layer, queries, a.kv_of_head);
        }
    }
    if (!on_chip(owner)) return attend_arriving(op, owner, a);
    if (shape().common > 0) {
        attend_common(op, owner, a);
    } else {
        op.attention(a.out, a.q, layer(owner), a.kv_of_head, a.rows);
    }
    for (const RowGroup& g : groups_) passing(op, owner, g.sequence, layer(owner), {});
}

/// Attention of a prompt's rows. Observers are notified of the queries and tiles of the last batch only: of the
/// prompt's last query.
void FullCache::attend_prompt(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    const int64_t sequence = prefill_.sequence;
    const bool last = a.rows.max_slots == length(sequence) + prefill_.tokens;
    const LayerKv& kv = on_chip(owner) ? layer(owner) : prefill_.open;
    if (provisional()) return op.attention(a.out, a.q, kv, a.kv_of_head, a.rows);
    AttentionReport report;
    for (KvObserver* f : observers(sequence)) {
        if (last) f->query(op, owner, a.layer, {.q = a.q.slice_rows(a.q.rows() - 1, 1), .first = 0}, a.kv_of_head);
        if (const Tensor totals = f->totals(a.q.rows())) report.totals = totals;
    }
    op.attention(a.out, a.q, kv, a.kv_of_head, a.rows, {}, report);
    for (KvObserver* f : observers(sequence)) f->attended(op, owner, kv, a);
    if (last) passing(op, owner, sequence, kv, {});
}

void FullCache::passing(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv,
                        const TileRange& part) const {
    for (KvObserver* f : observers(sequence)) {
        if (!provisional()) f->passing(op, owner, kv, part);
    }
}

/// Attends tiles that all sequences share, with all rows as rows of sequence 0.
void FullCache::attend_as_one(Kernels& op, const AttentionCall& a, const LayerKv& kv, const TileRange& tiles) const {
    RowsView rows = a.rows;
    rows.sequences = zeros_.first_rows(a.q.rows());
    LayerKv one = kv;
    one.tiles = kv.tiles.first_rows(1);  // shows the backend that there is one sequence
    op.attention(a.out, a.q, one, a.kv_of_head, rows, tiles);
}

/// Attention over the tiles that all sequences share, read once for all rows, then over each sequence's own.
void FullCache::attend_common(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    const LayerKv& kv = layer(owner);
    attend_as_one(op, a, kv, {0, shape().common_tiles()});
    op.attention(a.out, a.q, kv, a.kv_of_head, a.rows, {shape().common_tiles(), kEveryTile});
}

/// Attention over streamed tiles, span by span as they arrive: over those that all sequences share, then over each
/// sequence's own, then over the newest ones, which are on the device.
void FullCache::attend_arriving(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    TileRing& ring = streaming_->ring;
    const StreamedIndex layer_here = streamed_[owner.at()];
    const LayerKv& kv = layer(owner);
    const auto attend = [&](int64_t first, int64_t n, int64_t bound, const LayerKv& at, const TileRange& tiles) {
        op.attention(a.out.slice_rows(first, n), a.q.slice_rows(first, n), at, a.kv_of_head,
                     a.rows.some(first, n, bound), tiles);
    };
    std::span<const Reading> own = readings_;
    if (shape().common > 0) {
        ring.attend(layer_here, own.front(), kv, [&](const LayerKv& at, const TileRange& tiles) {
            attend_as_one(op, a, at, tiles);
            for (const RowGroup& g : groups_) passing(op, owner, g.sequence, at, tiles);
        });
        own = own.subspan(1);
    }
    for (size_t i = 0; i < groups_.size(); ++i) {
        const RowGroup& g = groups_[i];
        ring.attend(layer_here, own[i], kv, [&](const LayerKv& at, const TileRange& tiles) {
            attend(g.first, g.rows, g.bound, at, tiles);
            passing(op, owner, g.sequence, at, tiles);
        });
    }
    streaming_->tails.use();
    // Sequences whose newest tiles have the same indices are attended together.
    for (size_t i = 0, end = 0; i < groups_.size(); i = end) {
        int64_t rows = 0, bound = 0;
        for (; end < groups_.size() && own[end].tiles.end == own[i].tiles.end; ++end) {
            rows += groups_[end].rows;
            bound = std::max(bound, groups_[end].bound);
        }
        const TileRange newest{own[i].tiles.end, kEveryTile};
        attend(groups_[i].first, rows, bound, kv, newest);
        for (size_t g = i; g < end; ++g) passing(op, owner, groups_[g].sequence, kv, newest);
    }
}

void FullCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    const int64_t n = static_cast<int64_t>(rows.size()), first = length(sequence);
    check(first + n <= shape().context, "kv: {} rows kept after {} of {} tokens", n, first, shape().context);
    check(staged().are_path(sequence, rows), "kv: rows {} of sequence {} are kept and are no path",
          fmt::join(rows, " "), sequence);
    if (n == 0) return commit(sequence, first);

    const Tensor kept = kept_.send(rows, sequence, [&](int64_t i) { return first + i; });
    if (streaming_) streaming_->tails.open(sequence, first, n);
    op.kv_keep(layers_, kept);
    kept_.used();
    for (KvObserver* f : observers(sequence)) f->kept(op, sequence, first, rows);
    if (streaming_) streaming_->tails.written(sequence, first, n);
    for (OwnerIndex owner; owner.i < shape().owner_layers; ++owner) {
        written(op, owner, sequence, layer(owner), first, n);
    }
    commit(sequence, first + n);
}

void FullCache::truncate(int64_t sequence, int64_t n) {
    check(n >= 0 && n <= length(sequence), "kv: cannot truncate {} tokens to {}", length(sequence), n);
    if (streaming_ && n < length(sequence)) {
        streaming_->ring.forget();
        streaming_->tails.truncate(sequence, n);
    }
    prefill_.running = false;  // still set if a prefill has failed
    for (KvObserver* f : observers(sequence)) f->truncated(sequence, n);
    commit(sequence, n);
}

void FullCache::fork(int64_t sequence) {
    const KvShape& s = shape();
    const int64_t n = length(0);
    check(sequence > 0 && n >= s.common && length(sequence) == 0,
          "kv: sequence {} of {} tokens is to have the {} of the first one, {} of them in common", sequence,
          length(sequence), n, s.common);
    for (OwnerIndex owner; owner.i < s.owner_layers; ++owner) {
        if (!on_chip(owner)) continue;
        for (int64_t t = s.common_tiles(); t < tiles_for(n); ++t) {
            compute_.copy(bytes_on_device(tile_on_chip(owner, sequence, t), s.layout.tile_bytes()),
                          bytes_on_device(tile_on_chip(owner, 0, t), s.layout.tile_bytes()), "kv_fork");
        }
    }
    if (streaming_) streaming_->tails.fork(sequence, n);
    auto from = observers(0).begin();
    for (KvObserver* f : observers(sequence)) f->forked(**from++);
    commit(sequence, n);
}

void FullCache::state(Archive& ar) {
    ar.section("full view");
    int64_t n = length(0);
    ar.value(n);
    require(n >= 0 && n <= shape().context, Exit::kConfig, "{} tokens to resume, the context has {}", n,
            shape().context);
    tiles(ar, n);
}

void FullCache::tiles(Archive& ar, int64_t n) {
    const KvShape& s = shape();
    check(s.sequences == 1 && n <= s.context && (ar.loads() || n == length(0)), "kv: {} tokens of {} sequences", n,
          s.sequences);
    if (ar.loads()) truncate(0, 0);
    if (streaming_ && ar.loads()) streaming_->window.begin(0, 0, n);
    if (streaming_ && !ar.loads()) streaming_->transport.drain();
    for (OwnerIndex owner; owner.i < s.owner_layers; ++owner) {
        const StreamedIndex streamed = streamed_[owner.at()];
        const bool fills = !on_chip(owner) && ar.loads();
        if (fills) {
            streaming_->window.open(streamed, /*writes=*/true);
            streaming_->window.open_rows(0, n);
        }
        for (int64_t t = 0; t < tiles_for(n); ++t) {
            const bool on_host = !on_chip(owner) && !fills && t < TailTiles::first_tile(n);
            if (on_host) {
                const Transport& transport = streaming_->transport;
                char* const plain = transport.stored_at(streamed, 0, t);
                if (plain != nullptr) {
                    ar.memory(compute_, bytes_on_host(plain, s.layout.tile_bytes()));
                } else {
                    ar.produce(s.layout.tile_bytes(),
                               [&transport, streamed, t](void* to) { transport.decode(streamed, 0, t, to); });
                }
            } else {
                char* const tile = on_chip(owner) ? tile_on_chip(owner, 0, t)
                                   : fills        ? streaming_->window.at(t)
                                                  : streaming_->tails.place(streamed, 0, t);
                ar.memory(compute_, bytes_on_device(tile, s.layout.tile_bytes()));
            }
        }
        if (fills) {
            streaming_->window.rows_written(0, n);
            streaming_->window.close();
        }
    }
    if (ar.loads()) commit(0, n);
}

void FullCache::begin_prefill(int64_t sequence, int64_t n) {
    const int64_t before = length(sequence);
    check(n >= 0 && before + n <= shape().context, "kv: {} tokens appended to {} of {}", n, before, shape().context);
    prefill_ = {.running = true, .sequence = sequence, .tokens = n};
    for (KvObserver* f : observers(sequence)) f->begin(sequence, before + n);
    if (streaming_) streaming_->window.begin(sequence, before, before + n);
}

void FullCache::begin_layer(OwnerIndex owner, Pass pass) {
    end_layer();
    if (on_chip(owner)) return;
    prefill_.streams = true;
    prefill_.open = layer(owner);
    prefill_.open.tiles =
        streaming_->window.open(streamed_[owner.at()], pass == Pass::kWrites, /*stores=*/!provisional());
}

void FullCache::end_layer() {
    if (prefill_.streams) streaming_->window.close();
    prefill_.streams = false;
}

void FullCache::end() {
    if (!prefill_.running) {
        if (streaming_) streaming_->ring.end();
        return;
    }
    end_layer();
    commit(prefill_.sequence, length(prefill_.sequence) + prefill_.tokens);
    prefill_.running = false;
    for (KvObserver* f : observers(prefill_.sequence)) f->prefilled(prefill_.sequence);
}

}  // namespace trireme
