#include "offload/stream/transport.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

#include "offload/stream/raw_bytes.h"
#include "runtime/error.h"

namespace trireme {
namespace {

size_t plain_bytes(const StreamShape& shape, const TileRange& tiles) {
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
      backend_(device.backend()),
      h2d_(device.make_stream("h2d")),
      d2h_(device.make_stream("d2h")),
      codec_stream_(shape.coded ? device.make_stream("codec") : nullptr),
      order_(compute, *h2d_, *d2h_, codec_stream_.get()),
      store_(device, shape),
      stored_(static_cast<size_t>(shape.all_tiles())),
      fetched_(stored_.size()),
      digests_(verify ? std::make_unique<Digests>(device, shape, std::move(owners)) : nullptr),
      codec_(shape.coded ? std::make_unique<TileCodec>(device, order_, shape) : nullptr) {
    if (link.gbps > 0) emulate_link(link);
    if (codec_) outgoing_.reserve(static_cast<size_t>(std::max(shape.tiles, shape.layers)));
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
    if (codec_) use.codec_ms = ms(spent(Lane::kCodec, "kv_encode") + spent(Lane::kCodec, "kv_decode"));
    return use;
}

LinkUse LinkUse::operator-(const LinkUse& b) const {
    return {h2d_bytes - b.h2d_bytes,
            d2h_bytes - b.d2h_bytes,
            h2d_plain_bytes - b.h2d_plain_bytes,
            d2h_plain_bytes - b.d2h_plain_bytes,
            hidden_h2d_bytes - b.hidden_h2d_bytes,
            hidden_d2h_bytes - b.hidden_d2h_bytes,
            h2d_ms - b.h2d_ms,
            d2h_ms - b.d2h_ms,
            stall_ms - b.stall_ms,
            codec_ms - b.codec_ms};
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
    if (codec_stream_) codec_stream_->drain();
}

void Transport::settle() {
    order_.stream(Lane::kD2h).synchronize();
}

Ordering::Mark Transport::fetch(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    check(sequence == 0 || tiles.end <= shape_.common || tiles.first >= shape_.common,
          "kv: tiles [{}, {}) of sequence {} are not consecutive: {} are common", tiles.first, tiles.end, sequence,
          shape_.common);
    order_.wait(Lane::kH2d, stored(sequence, tiles.end - 1));  // implies every tile before it: stores are in order
    const size_t bytes = plain_bytes(shape_, tiles);
    enqueued_.h2d_plain_bytes += bytes;
    const Lane arrival = codec_ ? Lane::kCodec : Lane::kH2d;
    if (codec_) {
        fetch_coded(to, layer, sequence, tiles);
    } else {
        h2d_->copy(bytes_on_device(to, bytes), bytes_on_host(store_.at(layer, sequence, tiles.first), bytes), "kv_h2d");
        enqueued_.h2d_bytes += bytes;
    }
    for (int64_t t = tiles.first; digests_ && t < tiles.end; ++t) {
        digests_->compare(order_.stream(arrival), to + static_cast<size_t>(t - tiles.first) * shape_.tile_bytes(),
                          layer, sequence, t);
    }
    const Ordering::Mark mark = order_.record(arrival);
    for (int64_t t = tiles.first; t < tiles.end; ++t) fetched_[place(sequence, t)] = mark;
    return mark;
}

void Transport::fetch_coded(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    for (int64_t t = tiles.first, n = 0; t < tiles.end; t += n) {
        char* const plain = store_.plain_at(layer, sequence, t);
        n = 1;
        if (plain != nullptr) {
            // Tiles that were fetched to the same place, and then discarded, may still be being decoded.
            order_.wait(Lane::kH2d, order_.record(Lane::kCodec));
            h2d_->copy(bytes_on_device(to, shape_.tile_bytes()), bytes_on_host(plain, shape_.tile_bytes()), "kv_h2d");
            enqueued_.h2d_bytes += shape_.tile_bytes();
            if (t + 1 == tiles.end) order_.wait(Lane::kCodec, order_.record(Lane::kH2d));
        } else {
            while (t + n < tiles.end && store_.plain_at(layer, sequence, t + n) == nullptr) ++n;
            codec_->fetch(to, store_.at(layer, sequence, t), n);
            enqueued_.h2d_bytes += static_cast<size_t>(n) * shape_.stored_bytes();
        }
        to += static_cast<size_t>(n) * shape_.tile_bytes();
    }
}

void Transport::seal(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    for (int64_t t = tiles.first; digests_ && t < tiles.end; ++t) {
        // Earlier fetches of this tile, from before a truncation, must be compared with the old digest first.
        order_.wait(Lane::kCompute, fetched_[place(sequence, t)]);
        digests_->take(order_.stream(Lane::kCompute), from + static_cast<size_t>(t - tiles.first) * shape_.tile_bytes(),
                       layer, sequence, t);
    }
}

Ordering::Mark Transport::store(std::span<const Written> spans, int64_t sequence, const Ordering::Mark& written) {
    if (!codec_) order_.wait(Lane::kD2h, written);
    for (const Written& w : spans) {
        // A fetch from before a truncation may still read the tile.
        for (int64_t t = w.tiles.first; t < w.tiles.end; ++t) {
            order_.wait(Lane::kD2h, fetched_[place(sequence, t)]);
        }
    }
    if (codec_) {
        store_coded(spans, sequence, written);
    } else {
        for (const Written& w : spans) {
            const size_t bytes = plain_bytes(shape_, w.tiles);
            d2h_->copy(bytes_on_host(store_.at(w.layer, sequence, w.tiles.first), bytes),
                       bytes_on_device(w.from, bytes), "kv_d2h");
            enqueued_.d2h_bytes += bytes;
        }
    }
    const Ordering::Mark mark = order_.record(Lane::kD2h);
    for (const Written& w : spans) {
        enqueued_.d2h_plain_bytes += plain_bytes(shape_, w.tiles);
        for (int64_t t = w.tiles.first; t < w.tiles.end; ++t) stored_[place(sequence, t)] = mark;
    }
    return mark;
}

void Transport::store_coded(std::span<const Written> spans, int64_t sequence, const Ordering::Mark& written) {
    outgoing_.clear();
    for (const Written& w : spans) {
        for (int64_t t = w.tiles.first; t < w.tiles.end; ++t) {
            const char* from = w.from + static_cast<size_t>(t - w.tiles.first) * shape_.tile_bytes();
            outgoing_.push_back({from, store_.at(w.layer, sequence, t), /*fits=*/false});
        }
    }
    codec_->store(outgoing_, written);
    const auto each = [&](const auto& body) {
        const TileCodec::Outgoing* sent = outgoing_.data();
        for (const Written& w : spans) {
            for (int64_t t = w.tiles.first; t < w.tiles.end; ++t) body(w.layer, t, *sent++);
        }
    };
    each([&](StreamedIndex layer, int64_t t, const TileCodec::Outgoing& sent) {
        store_.set_plain(layer, sequence, t, !sent.fits);  // may lack memory: before any copy
        enqueued_.d2h_bytes += sent.fits ? shape_.stored_bytes() : shape_.tile_bytes();
    });
    each([&](StreamedIndex layer, int64_t t, const TileCodec::Outgoing& sent) {
        if (sent.fits) return;
        d2h_->copy(bytes_on_host(store_.plain_at(layer, sequence, t), shape_.tile_bytes()),
                   bytes_on_device(sent.plain, shape_.tile_bytes()), "kv_d2h");
    });
}

void Transport::decode(StreamedIndex layer, int64_t sequence, int64_t tile, void* to) const {
    decode_tile(tile_code(shape_.layout), backend_, store_.at(layer, sequence, tile), static_cast<char*>(to));
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
