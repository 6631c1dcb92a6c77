#include "offload/stream/tail_tiles.h"

#include <algorithm>
#include <array>

#include "offload/stream/raw_bytes.h"
#include "offload/stream/table_writer.h"

namespace trireme {

TailTiles::TailTiles(Device& device, Transport& transport, const StreamShape& shape)
    : transport_(transport),
      shape_(shape),
      memory_(device, bytes(shape)),
      table_memory_(device, table_bytes(shape)),
      held_(static_cast<size_t>(shape.sequences * kPlaces)) {
    written_.reserve(static_cast<size_t>(shape.layers));
    const Shape table{shape.sequences, shape.tiles};
    TableWriter tables(device, transport_.order().stream(Lane::kCompute), table);
    for (StreamedIndex layer; layer.i < shape.layers; ++layer) {
        tables_.push_back(table_memory_.take(DType::kI64, table));
        tables.write(tables_.back(), [&](int64_t s, int64_t t) { return place(layer, s, t); });
    }
}

void TailTiles::open(int64_t sequence, int64_t first, int64_t n) {
    use();
    for_tiles(first, n, [&](int64_t t) {
        // A copy to host memory may still be reading the place: an older tile, or this one from before a truncation.
        transport_.order().wait(Lane::kCompute, held(sequence, t).stored);
        held(sequence, t).tile = t;
    });
}

void TailTiles::written(int64_t sequence, int64_t first, int64_t n) {
    for_tiles(first, n, [&](int64_t t) {
        if ((t + 1) * kTileTokens <= first + n) store(sequence, t);
    });
}

/// Copies a complete tile of every layer to host memory.
void TailTiles::store(int64_t sequence, int64_t t) {
    const auto each = [&](const auto& body) {
        for (StreamedIndex layer; layer.i < shape_.layers; ++layer) body(layer, place(layer, sequence, t));
    };
    each([&](StreamedIndex layer, const char* tile) { transport_.seal(tile, layer, sequence, {t, t + 1}); });
    const Ordering::Mark mark = transport_.order().record(Lane::kCompute);
    written_.clear();
    each([&](StreamedIndex layer, const char* tile) { written_.push_back({tile, layer, {t, t + 1}}); });
    held(sequence, t).stored = transport_.store(written_, sequence, mark);
}

void TailTiles::fork(int64_t sequence, int64_t length) {
    const int64_t first = std::max(shape_.common, first_tile(length)) * kTileTokens;
    open(sequence, first, length - first);
    for_tiles(first, length - first, [&](int64_t t) {
        for (StreamedIndex layer; layer.i < shape_.layers; ++layer) {
            transport_.order()
                .stream(Lane::kCompute)
                .copy(bytes_on_device(place(layer, sequence, t), shape_.tile_bytes()),
                      bytes_on_device(place(layer, 0, t), shape_.tile_bytes()), "kv_fork");
        }
        if ((t + 1) * kTileTokens <= length) store(sequence, t);
    });
}

void TailTiles::truncate(int64_t sequence, int64_t n) {
    const Ordering::Mark now = transport_.order().record(Lane::kCompute);
    for_tiles(first_tile(n) * kTileTokens, n - first_tile(n) * kTileTokens, [&](int64_t t) {
        Held& there = held(sequence, t);
        if (there.tile == t || t < shape_.common) return;  // shared tiles are never read from here
        // Kernels, or a copy to host memory, may still be reading the place.
        transport_.order().wait_all(Lane::kH2d, std::array{there.stored, now});
        for (StreamedIndex layer; layer.i < shape_.layers; ++layer) {
            returned_ = transport_.fetch(place(layer, sequence, t), layer, sequence, {t, t + 1});
        }
        there.tile = t;
    });
}

void TailTiles::adopt(StreamedIndex layer, int64_t sequence, int64_t length, const char* window) {
    const int64_t first = first_tile(length) * kTileTokens;
    for_tiles(first, length - first, [&](int64_t t) {
        const char* from = window + static_cast<size_t>(t) * shape_.tile_bytes();
        transport_.order()
            .stream(Lane::kCompute)
            .copy(bytes_on_device(place(layer, sequence, t), shape_.tile_bytes()),
                  bytes_on_device(from, shape_.tile_bytes()));
    });
}

void TailTiles::hand_over(StreamedIndex layer, int64_t sequence, const TileRange& tiles, char* window) {
    use();
    for (int64_t t = tiles.first; t < tiles.end; ++t) {
        char* to = window + static_cast<size_t>(t) * shape_.tile_bytes();
        transport_.order()
            .stream(Lane::kCompute)
            .copy(bytes_on_device(to, shape_.tile_bytes()),
                  bytes_on_device(place(layer, sequence, t), shape_.tile_bytes()));
    }
}

}  // namespace trireme
