#include "offload/stream/tile_ring.h"

#include <algorithm>
#include <array>

#include "offload/stream/table_writer.h"
#include "runtime/error.h"

namespace trireme {
namespace {

int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

}  // namespace

int64_t TileRing::span_tiles(const StreamShape& shape, int64_t slots) {
    const auto tile = static_cast<int64_t>(shape.tile_bytes()), least = static_cast<int64_t>(shape.span_bytes);
    return std::clamp(std::max(div_up(shape.tiles, slots), div_up(least, tile)), int64_t{1}, shape.tiles);
}

size_t TileRing::bytes(const StreamShape& shape, int64_t slots) {
    return static_cast<size_t>(slots * span_tiles(shape, slots)) * shape.tile_bytes();
}

size_t TileRing::table_bytes(const StreamShape& shape, int64_t slots) {
    return static_cast<size_t>(slots) *
           Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, span_tiles(shape, slots)});
}

TileRing::TileRing(Device& device, Transport& transport, const StreamShape& shape, int64_t slots,
                   const std::vector<StreamedIndex>& reads)
    : transport_(transport),
      shape_(shape),
      span_(span_tiles(shape, slots)),
      memory_(device, bytes(shape, slots)),
      tables_(device, table_bytes(shape, slots)),
      slots_(static_cast<size_t>(slots)) {
    check(slots >= 2 && slots_.size() <= kMaxSlots, "kv ring: {} slots, wanted 2 to {}", slots, kMaxSlots);
    const Shape table{shape.sequences, span_};
    TableWriter tables(device, transport_.order().stream(Lane::kCompute), table);
    for (size_t i = 0; i < slots_.size(); ++i) {
        const char* base = memory() + i * static_cast<size_t>(span_) * shape.tile_bytes();
        slots_[i].table = tables_.take(DType::kI64, table);
        tables.write(slots_[i].table,
                     [&](int64_t, int64_t t) { return base + static_cast<size_t>(t) * shape.tile_bytes(); });
    }
    readings_.reserve(kMaxRows);
    set_reads(reads);
}

void TileRing::set_reads(const std::vector<StreamedIndex>& reads) {
    runs_.clear();
    for (const StreamedIndex layer : reads) {
        if (runs_.empty() || runs_.back().layer != layer) runs_.push_back({layer});
        ++runs_.back().attentions;
    }
}

TileRange TileRing::tiles_at(const Cursor& at) const {
    return {at.first, std::min(at.first + span_, readings_[at.reading].tiles)};
}

void TileRing::advance(Cursor& at) const {
    at.first += span_;
    skip_empty(at);
}

void TileRing::skip_empty(Cursor& at) const {
    while (at.run < runs_.size() && (readings_.empty() || at.first >= readings_[at.reading].tiles)) {
        at.first = 0;
        if (++at.reading < readings_.size()) continue;
        at.reading = 0;
        if (++at.attention < (holds_ ? 1 : runs_[at.run].attentions)) continue;
        at.attention = 0;
        ++at.run;
    }
}

void TileRing::begin(std::span<const Reading> readings) {
    readings_.assign(readings.begin(), readings.end());
    size_t spans = 0;
    for (const Reading& r : readings_) spans += static_cast<size_t>(div_up(r.tiles, span_));
    holds_ = spans <= slots_.size();
    attending_ = next_ = {};
    passed_ = 0;
    skip_empty(next_);
    for (uint64_t turn = used_; turn < fetched_; ++turn, advance(next_)) {
        Slot& s = slot(turn);
        const bool same = !at_end() && s.layer == runs_[next_.run].layer &&
                          s.sequence == readings_[next_.reading].sequence && s.tiles.first == next_.first &&
                          s.tiles.end <= tiles_at(next_).end;
        if (!same) {
            fetched_ = turn;
            return;
        }
        // The sequence has grown since its last span was fetched: fetch the missing tiles.
        if (s.tiles.end < tiles_at(next_).end) fetch(s, {s.tiles.end, tiles_at(next_).end});
    }
}

void TileRing::fetch_ahead() {
    for (; fetched_ - used_ < slots_.size() && !at_end(); ++fetched_, advance(next_)) {
        Slot& s = slot(fetched_);
        s.layer = runs_[next_.run].layer;
        s.sequence = readings_[next_.reading].sequence;
        s.tiles = {next_.first, next_.first};
        transport_.order().wait_all(Lane::kH2d, std::array{s.read, s.stored});
        fetch(s, tiles_at(next_));
    }
}

/// Appends tiles to those that the slot holds already.
void TileRing::fetch(Slot& s, const TileRange& tiles) {
    const auto index = static_cast<size_t>(&s - slots_.data());
    char* base = memory() + index * static_cast<size_t>(span_) * shape_.tile_bytes();
    s.filled = transport_.fetch(base + static_cast<size_t>(tiles.first - s.tiles.first) * shape_.tile_bytes(), s.layer,
                                s.sequence, tiles);
    s.tiles.end = tiles.end;
}

Tensor TileRing::arrive(StreamedIndex layer, int64_t sequence, const TileRange& tiles) {
    fetch_ahead();
    Slot& s = slot(used_ + passed_);
    check(used_ + passed_ < fetched_ && s.layer == layer && s.sequence == sequence && s.tiles.first == tiles.first &&
              s.tiles.end == tiles.end,
          "kv ring: tiles [{}, {}) of streamed layer {} are wanted, the slot has [{}, {}) of {}", tiles.first,
          tiles.end, layer, s.tiles.first, s.tiles.end, s.layer);
    transport_.order().wait(Lane::kCompute, s.filled, "kv_stall");
    return s.table;
}

void TileRing::leave() {
    if (stay()) {
        ++passed_;
    } else {
        slot(used_++).read = transport_.order().record(Lane::kCompute);
    }
}

// One sequence of an attention is done.
void TileRing::attended() {
    if (++attending_.reading < readings_.size()) return;
    attending_.reading = 0;
    passed_ = 0;
    if (++attending_.attention < runs_[attending_.run].attentions) return;
    attending_.attention = 0;
    ++attending_.run;
}

void TileRing::end() {
    next_ = {};
    skip_empty(next_);
    fetch_ahead();
}

void TileRing::forget() {
    fetched_ = used_;
    next_ = {.run = runs_.size()};
}

void TileRing::claim(Lane lane, const TileRange& tiles) {
    std::array<Ordering::Mark, 3 * kMaxSlots> marks;
    size_t n = 0;
    for (int64_t t = tiles.first / span_; t * span_ < tiles.end; ++t) {
        const Slot& s = slots_[static_cast<size_t>(t)];
        for (const Ordering::Mark& mark : {s.filled, s.read, s.stored}) marks[n++] = mark;
    }
    transport_.order().wait_all(lane, std::span(marks).first(n), lane == Lane::kCompute ? "kv_stall" : "wait");
}

void TileRing::release(Lane lane, const TileRange& tiles) {
    const Ordering::Mark mark = transport_.order().record(lane);
    for (int64_t t = tiles.first / span_; t * span_ < tiles.end; ++t) {
        Slot& s = slots_[static_cast<size_t>(t)];
        (lane == Lane::kH2d ? s.filled : lane == Lane::kD2h ? s.stored : s.read) = mark;
    }
}

}  // namespace trireme
