#include "offload/stream/transport.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "offload/stream/raw_bytes.h"
#include "runtime/error.h"

namespace trireme {
namespace {

size_t span_bytes(const StreamShape& shape, const TileRange& tiles) {
    return static_cast<size_t>(tiles.end - tiles.first) * shape.tile_bytes();
}

}  // namespace

/// The digests of all tiles as compute wrote them. Compute and H2D each have a host buffer that they copy a tile to in
/// order to digest it.
class Transport::Digests {
  public:
    Digests(Device& device, const StreamShape& shape, std::vector<OwnerIndex> owners)
        : shape_(shape),
          owners_(std::move(owners)),
          written_(device, shape.tile_bytes()),
          arrived_(device, shape.tile_bytes()),
          digests_(static_cast<size_t>(shape.layers * shape.all_tiles()), 0) {}

    void take(Stream& compute, const char* tile, StreamedIndex layer, int64_t sequence, int64_t index) {
        const Call call = bring(compute, written_, tile, layer, sequence, index);
        compute.call_host("kv_digest", call.bytes, [call] { *call.digest = XXH3_64bits(call.data, call.bytes); });
    }
    void compare(Stream& h2d, const char* tile, StreamedIndex layer, int64_t sequence, int64_t index) {
        const Call call = bring(h2d, arrived_, tile, layer, sequence, index);
        h2d.call_host("kv_digest", call.bytes, [call] {
            check(XXH3_64bits(call.data, call.bytes) == *call.digest,
                  "tile {} of owner layer {}, sequence {}, is not what was written", call.index, call.owner,
                  call.sequence);
        });
    }

  private:
    struct Call {
        uint64_t* digest;
        const void* data;
        size_t bytes;
        OwnerIndex owner;
        int64_t sequence, index;
    };
    Call bring(Stream& stream, const Buffer<Space::kHost>& to, const char* tile, StreamedIndex layer, int64_t sequence,
               int64_t index) {
        const size_t bytes = shape_.tile_bytes();
        stream.copy(bytes_on_host(to.data(), bytes), bytes_on_device(tile, bytes), "kv_digest_copy");
        return {&digests_[static_cast<size_t>(layer.i * shape_.all_tiles() + shape_.place(sequence, index))],
                to.data(),
                bytes,
                owners_[layer.at()],
                sequence,
                index};
    }

    StreamShape shape_;
    std::vector<OwnerIndex> owners_;
    Buffer<Space::kHost> written_, arrived_;
    std::vector<uint64_t> digests_;
};

Transport::Transport(Device& device, Stream& compute, const StreamShape& shape, std::vector<OwnerIndex> owners,
                     const Link& link, bool verify)
    : shape_(shape),
      h2d_(device.make_stream("h2d")),
      d2h_(device.make_stream("d2h")),
      order_(compute, *h2d_, *d2h_),
      store_(device, shape),
      stored_(static_cast<size_t>(shape.all_tiles())),
      fetched_(stored_.size()),
      digests_(verify ? std::make_unique<Digests>(device, shape, std::move(owners)) : nullptr) {
    if (link.gbps > 0) emulate_link(link);
}

void Transport::emulate_link(const Link& link) {
    h2d_->emulate_link(link.gbps, link.us);
    d2h_->emulate_link(link.gbps, link.us);
}

LinkUse Transport::use() const {
    const auto spent = [&](Lane lane, const char* what) { return order_.stream(lane).spent(what).ns; };
    const auto ms = [](uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
    LinkUse use = enqueued_;
    use.h2d_ms = ms(spent(Lane::kH2d, "kv_h2d") + spent(Lane::kH2d, "rows_h2d"));
    use.d2h_ms = ms(spent(Lane::kD2h, "kv_d2h") + spent(Lane::kD2h, "rows_d2h"));
    use.stall_ms = ms(spent(Lane::kCompute, "kv_stall") + spent(Lane::kCompute, "rows_stall"));
    return use;
}

LinkUse LinkUse::operator-(const LinkUse& b) const {
    return {h2d_bytes - b.h2d_bytes,
            d2h_bytes - b.d2h_bytes,
            hidden_h2d_bytes - b.hidden_h2d_bytes,
            hidden_d2h_bytes - b.hidden_d2h_bytes,
            h2d_ms - b.h2d_ms,
            d2h_ms - b.d2h_ms,
            stall_ms - b.stall_ms};
}

LinkUse LinkUse::operator+(const LinkUse& more) const {
    return *this - (LinkUse{} - more);
}

double LinkUse::h2d_gbps() const {
    return h2d_ms > 0 ? static_cast<double>(h2d_bytes + hidden_h2d_bytes) * 1e-6 / h2d_ms : 0;
}

double LinkUse::hidden_frac() const {
    const double busy = std::max(h2d_ms, d2h_ms);
    return busy > 0 ? std::max(0.0, 1 - stall_ms / busy) : 1;
}

Transport::~Transport() {
    drain();
}

void Transport::drain() noexcept {
    for (const Lane lane : {Lane::kCompute, Lane::kH2d, Lane::kD2h}) order_.stream(lane).drain();
}

void Transport::settle() {
    order_.stream(Lane::kD2h).synchronize();
}

Ordering::Mark Transport::fetch(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    const size_t bytes = span_bytes(shape_, tiles);
    check(sequence == 0 || tiles.end <= shape_.common || tiles.first >= shape_.common,
          "kv: tiles [{}, {}) of sequence {} are not consecutive: {} are common", tiles.first, tiles.end, sequence,
          shape_.common);
    order_.wait(Lane::kH2d, stored(sequence, tiles.end - 1));  // implies every tile before it: stores are in order
    h2d_->copy(bytes_on_device(to, bytes), bytes_on_host(store_.at(layer, sequence, tiles.first), bytes), "kv_h2d");
    enqueued_.h2d_bytes += bytes;
    for (int64_t t = tiles.first; digests_ && t < tiles.end; ++t) {
        digests_->compare(*h2d_, to + static_cast<size_t>(t - tiles.first) * shape_.tile_bytes(), layer, sequence, t);
    }
    const Ordering::Mark mark = order_.record(Lane::kH2d);
    for (int64_t t = tiles.first; t < tiles.end; ++t) fetched_[place(sequence, t)] = mark;
    return mark;
}

void Transport::seal(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    for (int64_t t = tiles.first; digests_ && t < tiles.end; ++t) {
        // Earlier fetches of this tile, from before a truncation, must be compared with the old digest first.
        order_.wait(Lane::kCompute, fetched_[place(sequence, t)]);
        digests_->take(order_.stream(Lane::kCompute), from + static_cast<size_t>(t - tiles.first) * shape_.tile_bytes(),
                       layer, sequence, t);
    }
}

Ordering::Mark Transport::store(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles,
                                const Ordering::Mark& written) {
    const size_t bytes = span_bytes(shape_, tiles);
    order_.wait(Lane::kD2h, written);
    for (int64_t t = tiles.first; t < tiles.end; ++t) {  // a fetch from before a truncation may still read the tile
        order_.wait(Lane::kD2h, fetched_[place(sequence, t)]);
    }
    d2h_->copy(bytes_on_host(store_.at(layer, sequence, tiles.first), bytes), bytes_on_device(from, bytes), "kv_d2h");
    enqueued_.d2h_bytes += bytes;
    const Ordering::Mark mark = order_.record(Lane::kD2h);
    for (int64_t t = tiles.first; t < tiles.end; ++t) stored_[place(sequence, t)] = mark;
    return mark;
}

void Transport::copy_rows(const Tensor& to, const HostTensor& from) {
    h2d_->copy(to, from, "rows_h2d");
    enqueued_.hidden_h2d_bytes += from.bytes();
}

void Transport::copy_rows(const HostTensor& to, const Tensor& from) {
    d2h_->copy(to, from, "rows_d2h");
    enqueued_.hidden_d2h_bytes += from.bytes();
}

}  // namespace trireme
