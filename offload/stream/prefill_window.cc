#include "offload/stream/prefill_window.h"

#include <algorithm>

#include "offload/stream/table_writer.h"
#include "runtime/error.h"

namespace trireme {

PrefillWindow::PrefillWindow(Device& device, Transport& transport, TileRing& ring, TailTiles& tails,
                             const StreamShape& shape)
    : transport_(transport),
      ring_(ring),
      tails_(tails),
      shape_(shape),
      written_(static_cast<size_t>(shape.layers), false),
      table_memory_(device, table_bytes(shape)),
      table_(table_memory_.take(DType::kI64, {shape.sequences, shape.tiles})) {
    TableWriter(device, transport_.order().stream(Lane::kCompute), table_.shape())
        .write(table_, [&](int64_t, int64_t t) { return at(t); });
}

void PrefillWindow::begin(int64_t sequence, int64_t before, int64_t after) {
    ring_.forget();
    sequence_ = sequence;
    before_ = before;
    after_ = after;
    layer_ = StreamedIndex(-1);
    unstored_ = false;
    std::fill(written_.begin(), written_.end(), false);
    const int64_t first = TailTiles::first_tile(after) * kTileTokens;
    tails_.open(sequence, first, after - first);
}

const Tensor& PrefillWindow::open(StreamedIndex layer, bool writes, bool stores) {
    if (layer_ != layer) {
        if (unstored_) {
            stored_ = before_ / kTileTokens;
            store_all();
        }
        bring(layer, writes && stores ? before_ : after_);  // else the pass may read all, or compare with them
    }
    writes_ = writes;
    stores_ = stores;
    if (writes) stored_ = before_ / kTileTokens;
    return table_;
}

/// Copies the tiles of the layer's first `tokens` tokens into the window, or all of its tiles if it has fewer: older
/// tiles from host memory, the newest from the tails.
void PrefillWindow::bring(StreamedIndex layer, int64_t tokens) {
    layer_ = layer;
    const int64_t length = written_[layer.at()] ? after_ : before_;  // tokens that the layer has
    const int64_t wanted = tiles_for(std::min(tokens, length)),
                  on_host = std::min(TailTiles::first_tile(length), wanted);
    for (int64_t first = 0; first < on_host; first += ring_.span()) {
        const TileRange tiles{first, std::min(first + ring_.span(), on_host)};
        ring_.claim(Lane::kH2d, tiles);
        ring_.release(Lane::kH2d, tiles, transport_.fetch(at(first), layer, sequence_, tiles));
    }
    ring_.claim(Lane::kCompute, {0, wanted});
    tails_.hand_over(layer, sequence_, {on_host, wanted}, ring_.memory());
}

void PrefillWindow::open_rows(int64_t first, int64_t n) {
    ring_.claim(Lane::kCompute, {first / kTileTokens, tiles_for(first + n)});
}

void PrefillWindow::store_up_to(int64_t tile) {
    if (tile <= stored_) return;
    const TileRange tiles{stored_, tile};
    transport_.seal(at(stored_), layer_, sequence_, tiles);
    const Transport::Written span{at(stored_), layer_, tiles};
    transport_.store({&span, 1}, sequence_, transport_.order().record(Lane::kCompute));
    ring_.release(Lane::kD2h, tiles);
    stored_ = tile;
}

void PrefillWindow::rows_written(int64_t first, int64_t n) {
    // Whole slots only: the next layer waits for a whole slot, and would gain nothing from a part of one.
    if (stores_) store_up_to((first + n) / kTileTokens / ring_.span() * ring_.span());
}

void PrefillWindow::store_all() {
    tails_.adopt(layer_, sequence_, after_, ring_.memory());  // first, so that a wait for the store covers this
    store_up_to(after_ / kTileTokens);
    written_[layer_.at()] = true;
    unstored_ = false;
}

void PrefillWindow::close() {
    const int64_t newest = TailTiles::first_tile(after_);
    ring_.release(Lane::kCompute, {0, newest});
    if (writes_ && stores_) store_all();
    if (writes_ && !stores_) unstored_ = true;
    ring_.release(Lane::kCompute, {newest, tiles_for(after_)});
}

}  // namespace trireme
