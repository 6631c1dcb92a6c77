#include "offload/stream/tile_codec.h"

#include <algorithm>

#include "offload/stream/raw_bytes.h"

namespace trireme {
namespace {

// A stage has the bytes of four spans of least size, 8 MiB: shorter copies do not fill the link, and cost the host
// more calls; longer ones delay the codec.
constexpr size_t kStageSpans = 4;

}  // namespace

int64_t TileCodec::stage_tiles(const StreamShape& shape) {
    const size_t tiles = kStageSpans * shape.span_bytes / static_cast<size_t>(tile_code(shape.layout).bytes);
    return std::clamp(static_cast<int64_t>(tiles), int64_t{1}, std::max(shape.tiles, shape.layers));
}

size_t TileCodec::device_bytes(const StreamShape& shape) {
    const auto stage = static_cast<size_t>(stage_tiles(shape) * tile_code(shape.layout).bytes);
    return (kIncoming + kOutgoing) * stage + static_cast<size_t>(stage_tiles(shape)) * sizeof(uint32_t);
}

TileCodec::TileCodec(Device& device, Ordering& order, const StreamShape& shape)
    : order_(order),
      tile_bytes_(shape.tile_bytes()),
      stage_tiles_(stage_tiles(shape)),
      coder_(make_tile_coder(device, order.stream(Lane::kCodec), shape.layout)),
      counts_(device, static_cast<size_t>(stage_tiles_) * sizeof(uint32_t)),
      host_counts_(device, static_cast<size_t>(stage_tiles_) * sizeof(uint32_t)) {
    const auto bytes = static_cast<size_t>(stage_tiles_ * coder_->code().bytes);
    for (Stage& s : incoming_) s.memory = Buffer<Space::kDevice>(device, bytes);
    for (Stage& s : outgoing_) s.memory = Buffer<Space::kDevice>(device, bytes);
}

char* TileCodec::at(const Stage& stage, int64_t tile) const {
    return static_cast<char*>(stage.memory.data()) + tile * coder_->code().bytes;
}

void TileCodec::fetch(char* to, const char* coded, int64_t n) {
    while (n > 0) {
        const int64_t some = std::min(n, stage_tiles_);
        const auto bytes = static_cast<size_t>(some * coder_->code().bytes);
        Stage& stage = incoming_[next_in_++ % kIncoming];
        order_.wait(Lane::kH2d, stage.free);
        order_.stream(Lane::kH2d)
            .copy(bytes_on_device(at(stage, 0), bytes), bytes_on_host(const_cast<char*>(coded), bytes), "kv_h2d");
        order_.wait(Lane::kCodec, order_.record(Lane::kH2d));
        coder_->decode(to, at(stage, 0), some);
        stage.free = order_.record(Lane::kCodec);
        to += static_cast<size_t>(some) * tile_bytes_;
        coded += bytes;
        n -= some;
    }
}

void TileCodec::store(std::span<Outgoing> tiles, const Ordering::Mark& written) {
    // First on compute: the time limit of a wait is for a stream that makes no progress.
    order_.synchronize(Lane::kCompute, written);
    while (!tiles.empty()) {
        const std::span<Outgoing> some = tiles.first(std::min(tiles.size(), static_cast<size_t>(stage_tiles_)));
        store_some(some, outgoing_[next_out_++ % kOutgoing]);
        tiles = tiles.subspan(some.size());
    }
}

void TileCodec::store_some(std::span<Outgoing> tiles, Stage& stage) {
    Stream& codec = order_.stream(Lane::kCodec);
    const auto code_bytes = static_cast<size_t>(coder_->code().bytes);
    order_.wait(Lane::kCodec, stage.free);
    auto* counts = static_cast<uint32_t*>(counts_.data());
    for (size_t i = 0, n = 0; i < tiles.size(); i += n) {
        // Tiles of one span are consecutive, and are encoded by one call.
        for (n = 1; i + n < tiles.size() && tiles[i + n].plain == tiles[i].plain + n * tile_bytes_;) ++n;
        coder_->encode(at(stage, static_cast<int64_t>(i)), counts + i, tiles[i].plain, static_cast<int64_t>(n));
    }
    const size_t bytes = tiles.size() * sizeof(uint32_t);
    codec.copy(bytes_on_host(host_counts_.data(), bytes), bytes_on_device(static_cast<char*>(counts_.data()), bytes),
               "codec_counts");
    order_.synchronize(Lane::kCodec, order_.record(Lane::kCodec));
    const auto* counted = static_cast<const uint32_t*>(host_counts_.data());
    for (size_t i = 0; i < tiles.size(); ++i) {
        tiles[i].fits = counted[i] <= static_cast<uint32_t>(coder_->code().capacity);
    }
    for (size_t i = 0, n = 0; i < tiles.size(); i += n) {
        n = 1;
        if (!tiles[i].fits) continue;
        while (i + n < tiles.size() && tiles[i + n].fits && tiles[i + n].coded == tiles[i].coded + n * code_bytes) ++n;
        order_.stream(Lane::kD2h)
            .copy(bytes_on_host(tiles[i].coded, n * code_bytes),
                  bytes_on_device(at(stage, static_cast<int64_t>(i)), n * code_bytes), "kv_d2h");
    }
    stage.free = order_.record(Lane::kD2h);
}

}  // namespace trireme
