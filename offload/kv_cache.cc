#include "offload/kv_cache.h"

#include <algorithm>
#include <utility>

#include "offload/table_writer.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;
using HostArena = Arena<Space::kHost>;

Shape table_shape(const KvShape& s) {
    return {s.sequences, s.tiles_per_sequence()};
}
Shape staged_shape(const KvShape& s) {
    return {s.layout.kv_heads, kMaxRows, s.layout.head_dim};
}
const Shape kKeptShape{kMaxRows, 3};

/// Streamed layers are numbered in the owners' order; -1 for those on chip.
std::vector<int64_t> streamed_numbers(const KvShape& shape, const std::vector<bool>& on_chip) {
    check(on_chip.empty() || static_cast<int64_t>(on_chip.size()) == shape.owner_layers,
          "kv: the residency of {} layers for {} owners", on_chip.size(), shape.owner_layers);
    std::vector<int64_t> numbers;
    int64_t next = 0;
    for (size_t owner = 0; owner < static_cast<size_t>(shape.owner_layers); ++owner) {
        numbers.push_back(on_chip.empty() || on_chip[owner] ? -1 : next++);
    }
    return numbers;
}

/// The owners that are streamed, in order.
std::vector<int64_t> streamed_owners(const std::vector<int64_t>& numbers) {
    std::vector<int64_t> owners;
    for (size_t owner = 0; owner < numbers.size(); ++owner) {
        if (numbers[owner] >= 0) owners.push_back(static_cast<int64_t>(owner));
    }
    return owners;
}

/// The streamed layers that a forward reads, in order.
std::vector<int64_t> streamed_reads(const std::vector<int64_t>& reads, const std::vector<int64_t>& numbers) {
    std::vector<int64_t> streamed;
    for (size_t i = 0; i < (reads.empty() ? numbers.size() : reads.size()); ++i) {
        const int64_t number = numbers[reads.empty() ? i : static_cast<size_t>(reads[i])];
        if (number >= 0) streamed.push_back(number);
    }
    return streamed;
}

}  // namespace

size_t KvCache::device_meta_bytes(const KvShape& s) {
    const size_t layer = DeviceArena::bytes_of(DType::kI64, table_shape(s)) +
                         DeviceArena::bytes_of(s.layout.k_type, staged_shape(s)) +
                         DeviceArena::bytes_of(s.layout.v_type, staged_shape(s));
    return static_cast<size_t>(s.owner_layers) * layer + kKeptSlots * DeviceArena::bytes_of(DType::kI32, kKeptShape);
}

size_t KvCache::host_meta_bytes() {
    return kKeptSlots * HostArena::bytes_of(DType::kI32, kKeptShape);
}

KvCache::Streaming::Streaming(Device& device, Stream& compute, const StreamShape& shape, std::vector<int64_t> owners,
                              const Residency& residency, std::vector<int64_t> reads)
    : transport(device, compute, shape, std::move(owners), residency.link, residency.verify),
      ring(device, transport, shape, residency.ring, std::move(reads)),
      tails(device, transport, shape),
      window(device, transport, ring, tails, shape) {}

KvCache::Streaming::~Streaming() {
    transport.drain();
}

StreamShape stream_shape(const KvShape& shape, int64_t layers, size_t span_bytes) {
    return {.layout = shape.layout,
            .layers = layers,
            .sequences = shape.sequences,
            .tiles = shape.tiles_per_sequence(),
            .span_bytes = span_bytes};
}

KvCache::KvCache(Device& device, Stream& stream, const KvShape& shape, const Residency& residency)
    : shape_(shape),
      stream_(stream),
      streamed_number_(streamed_numbers(shape, residency.on_chip)),
      streamed_layers_(std::count_if(streamed_number_.begin(), streamed_number_.end(), [](auto n) { return n >= 0; })),
      tiles_(device, static_cast<size_t>(shape.owner_layers - streamed_layers_) * shape.layer_bytes()),
      device_meta_(device, device_meta_bytes(shape)),
      host_meta_(device, host_meta_bytes()),
      streaming_(streamed_layers_ == 0
                     ? nullptr
                     : std::make_unique<Streaming>(device, stream,
                                                   stream_shape(shape, streamed_layers_, residency.span_bytes),
                                                   streamed_owners(streamed_number_), residency,
                                                   streamed_reads(residency.reads, streamed_number_))),
      lengths_(static_cast<size_t>(shape.sequences), 0) {
    for (int64_t owner = 0; owner < shape.owner_layers; ++owner) {
        layers_.push_back({.layout = shape.layout,
                           .tiles = on_chip(owner)
                                        ? device_meta_.take(DType::kI64, table_shape(shape))
                                        : streaming_->tails.table(streamed_number_[static_cast<size_t>(owner)]),
                           .staged_k = device_meta_.take(shape.layout.k_type, staged_shape(shape)),
                           .staged_v = device_meta_.take(shape.layout.v_type, staged_shape(shape))});
    }
    for (KeptSlot& slot : kept_) {
        slot.host = host_meta_.take(DType::kI32, kKeptShape);
        slot.device = device_meta_.take(DType::kI32, kKeptShape);
    }
    groups_.reserve(kMaxRows);
    readings_.reserve(kMaxRows);
    place_on_chip(device);
}

KvCache::~KvCache() = default;

/// Tiles of layers on chip follow each other: layer, sequence, tile.
void KvCache::place_on_chip(Device& device) {
    TableWriter tables(device, stream_, table_shape(shape_));
    auto* next_tile = static_cast<char*>(tiles_.data());
    for (int64_t owner = 0; owner < shape_.owner_layers; ++owner) {
        if (!on_chip(owner)) continue;
        tables.write(layer(owner).tiles, [&](int64_t, int64_t) {
            return std::exchange(next_tile, next_tile + shape_.layout.tile_bytes());
        });
    }
}

size_t KvCache::passing_bytes() const {
    return streaming_ ? streaming_->ring.bytes() + streaming_->tails.bytes() : 0;
}

size_t KvCache::host_bytes() const {
    return streaming_ ? streaming_->transport.host_bytes() : 0;
}

size_t KvCache::span_bytes() const {
    return streaming_ ? static_cast<size_t>(streaming_->ring.span()) * shape_.layout.tile_bytes() : 0;
}

void KvCache::imitate_link(const Link& link) {
    if (streaming_) streaming_->transport.imitate_link(link);
}

void KvCache::begin(std::span<const RowGroup> groups) {
    if (!streaming_) return;
    groups_.assign(groups.begin(), groups.end());
    readings_.clear();
    for (const RowGroup& g : groups) readings_.push_back({g.sequence, Tails::first_tile(length(g.sequence))});
    streaming_->ring.begin(readings_);
}

void KvCache::end() {
    if (streaming_) streaming_->ring.end();
}

void KvCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    const int64_t n = static_cast<int64_t>(rows.size()), first = length(sequence);
    check(n <= kMaxRows && first + n <= shape_.context, "kv: {} rows kept behind {} of {} tokens", n, first,
          shape_.context);
    if (n == 0) return;

    KeptSlot& slot = kept_[next_kept_];
    next_kept_ = (next_kept_ + 1) % kept_.size();
    if (slot.free.stream != nullptr) stream_.synchronize(slot.free);  // eight keeps ago: reached long since
    const Matrix<int32_t> list = slot.host.as<int32_t>();
    for (int64_t i = 0; i < n; ++i) {
        list(i, 0) = rows[static_cast<size_t>(i)];
        list(i, 1) = static_cast<int32_t>(first + i);
        list(i, 2) = static_cast<int32_t>(sequence);
    }

    const Tensor kept = slot.device.first_rows(n);
    stream_.copy(kept, slot.host.first_rows(n));
    if (streaming_) streaming_->tails.open(sequence, first, n);
    for (const LayerKv& kv : layers_) op.kv_keep(kv, kept);
    slot.free = stream_.record();
    if (streaming_) streaming_->tails.written(sequence, first, n);
    lengths_[static_cast<size_t>(sequence)] += n;
}

void KvCache::truncate(int64_t sequence, int64_t n) {
    check(n >= 0 && n <= length(sequence), "kv: cannot truncate {} tokens to {}", length(sequence), n);
    if (streaming_ && n < length(sequence)) {
        streaming_->ring.forget();
        streaming_->tails.truncate(sequence, n);
    }
    lengths_[static_cast<size_t>(sequence)] = n;
}

void KvCache::begin_prefill(int64_t sequence, int64_t n) {
    const int64_t before = length(sequence);
    check(n >= 0 && before + n <= shape_.context, "kv: {} tokens appended to {} of {}", n, before, shape_.context);
    prefilled_sequence_ = sequence;
    prefilled_ = n;
    if (streaming_) streaming_->window.begin(sequence, before, before + n);
}

LayerKv KvCache::open_layer(int64_t owner, bool been_through) {
    LayerKv kv = layer(owner);
    if (!on_chip(owner)) {
        kv.tiles = streaming_->window.open(streamed_number_[static_cast<size_t>(owner)], been_through);
    }
    return kv;
}

void KvCache::open_rows(int64_t owner, int64_t first, int64_t n) {
    if (!on_chip(owner)) streaming_->window.open_rows(first, n);
}

void KvCache::rows_written(int64_t owner, int64_t first, int64_t n) {
    if (!on_chip(owner)) streaming_->window.rows_written(first, n);
}

void KvCache::close_layer(int64_t owner) {
    if (!on_chip(owner)) streaming_->window.close();
}

void KvCache::end_prefill() {
    lengths_[static_cast<size_t>(prefilled_sequence_)] += prefilled_;
}

}  // namespace trireme
