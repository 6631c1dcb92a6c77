#include "offload/stream/tile_ring.h"

#include <algorithm>
#include <array>

#include "offload/stream/table_writer.h"
#include "runtime/error.h"
#include "runtime/index.h"

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

bool TileRing::holds_a_layer(const StreamShape& shape, int64_t slots) {
    const int64_t span = span_tiles(shape, slots), sequences = std::min(shape.sequences, kMaxRows);
    return div_up(shape.common, span) + sequences * div_up(shape.tiles - shape.common, span) <= slots;
}

size_t TileRing::frame_bytes(const StreamShape& shape, int64_t frames) {
    return static_cast<size_t>(frames) * shape.layer_bytes();
}

size_t TileRing::table_bytes(const StreamShape& shape, int64_t slots, int64_t frames) {
    const auto tables = [&](int64_t n, int64_t tiles) {
        return static_cast<size_t>(n) * Arena<Space::kDevice>::bytes_of(DType::kI64, {shape.sequences, tiles});
    };
    return tables(slots, span_tiles(shape, slots)) + tables(frames, shape.tiles);
}

TileRing::TileRing(Device& device, Transport& transport, const StreamShape& shape, int64_t slots, int64_t frames,
                   const std::vector<StreamedIndex>& reads)
    : transport_(transport),
      shape_(shape),
      span_(span_tiles(shape, slots)),
      holds_a_layer_(holds_a_layer(shape, slots)),
      memory_(device, bytes(shape, slots)),
      frame_memory_(device, frame_bytes(shape, frames)),
      tables_(device, table_bytes(shape, slots, frames)),
      slots_(static_cast<size_t>(slots)),
      frames_(static_cast<size_t>(frames)) {
    check(slots >= 2 && slots_.size() <= kMaxSlots, "kv ring: {} slots, expected 2 to {}", slots, kMaxSlots);
    Stream& compute = transport_.order().stream(Lane::kCompute);
    const auto at = [&](const Buffer<Space::kDevice>& memory, int64_t tile) {
        return static_cast<const char*>(memory.data()) + static_cast<size_t>(tile) * shape.tile_bytes();
    };
    TableWriter of_slots(device, compute, Shape{shape.sequences, span_});
    for (int64_t i = 0; i < slots; ++i) {
        Slot& s = slots_[index(i)];
        s.table = tables_.take(DType::kI64, {shape.sequences, span_});
        of_slots.write(s.table, [&](int64_t, int64_t t) { return at(memory_, i * span_ + t); });
    }
    TableWriter of_frames(device, compute, Shape{shape.sequences, shape.tiles});
    for (int64_t i = 0; i < frames; ++i) {
        Frame& f = frames_[index(i)];
        f.table = tables_.take(DType::kI64, {shape.sequences, shape.tiles});
        of_frames.write(f.table, [&](int64_t sequence, int64_t t) {
            return at(frame_memory_, i * shape.all_tiles() + shape.place(sequence, t));
        });
    }
    const int64_t most_readings = kMaxRows + 1;
    readings_.reserve(static_cast<size_t>(most_readings));
    spans_.resize(static_cast<size_t>(slots + frames * (most_readings + div_up(shape.all_tiles(), span_))));
    set_reads(reads);
}

int64_t TileRing::fetches(const ReadRun& run) const {
    if (run.held()) return run.first ? 1 : 0;
    return holds_ ? 1 : run.attentions;
}

TileRange TileRing::tiles_at(const Cursor& at) const {
    return {at.tile, std::min(at.tile + span_, readings_[at.reading].tiles.end)};
}

void TileRing::advance(Cursor& at) const {
    at.tile += span_;
    at.begun = true;
    seek(at);
}

/// Moves the cursor to the next span to fetch, unless it is at one.
void TileRing::seek(Cursor& at) const {
    for (; at.run < runs_.size(); at = {.run = at.run + 1}) {
        for (; at.attention < fetches(runs_[at.run]); ++at.attention, at.reading = 0) {
            for (; at.reading < readings_.size(); ++at.reading, at.tile = -1) {
                if (at.tile < 0) at.tile = readings_[at.reading].tiles.first;
                if (at.tile < readings_[at.reading].tiles.end) return;
            }
        }
    }
}

void TileRing::begin(std::span<const Reading> readings) {
    readings_.assign(readings.begin(), readings.end());
    int64_t spans = 0;
    for (const Reading& r : readings_) spans += div_up(r.tiles.end - r.tiles.first, span_);
    holds_ = spans <= static_cast<int64_t>(slots_.size());
    attending_ = next_ = {};
    passed_ = 0;
    seek(next_);
    for (uint64_t number = used_; number < fetched_; ++number, advance(next_)) {
        Span& s = span(number);
        const bool same = !at_end() && s.layer == runs_[next_.run].layer && s.frame == runs_[next_.run].frame &&
                          s.sequence == readings_[next_.reading].sequence && s.tiles.first == next_.tile &&
                          s.tiles.end <= tiles_at(next_).end;
        if (!same) return discard_from(number);
        // The sequence has grown since its last span was fetched: fetch the missing tiles.
        if (s.tiles.end < tiles_at(next_).end) fetch(s, {s.tiles.end, tiles_at(next_).end});
    }
}

void TileRing::discard_from(uint64_t number) {
    for (uint64_t n = number; n < fetched_; ++n) {
        if (span(n).frame < 0) {
            --turns_;
        } else {
            frames_[index(span(n).frame)].taken = false;
        }
    }
    fetched_ = number;
    // A frame with some valid spans continues to be filled.
    if (next_.begun && runs_[next_.run].held()) frames_[index(runs_[next_.run].frame)].taken = true;
}

bool TileRing::room() const {
    const ReadRun& run = runs_[next_.run];
    if (run.held()) return next_.begun || !frames_[index(run.frame)].taken;
    return turns_ - turns_used_ < slots_.size();
}

void TileRing::fetch_ahead() {
    for (; !at_end() && room(); ++fetched_, advance(next_)) {
        const ReadRun& run = runs_[next_.run];
        Span& s = span(fetched_);
        s = {.layer = run.layer,
             .sequence = readings_[next_.reading].sequence,
             .tiles = {next_.tile, next_.tile},
             .frame = run.frame,
             .turn = 0,
             .filled = {}};
        if (run.held()) {
            Frame& f = frames_[index(run.frame)];
            f.taken = true;
            transport_.order().wait(Lane::kH2d, f.read);
        } else {
            s.turn = turns_++;
            transport_.order().wait_all(Lane::kH2d, std::array{slot(s.turn).read, slot(s.turn).stored});
        }
        fetch(s, tiles_at(next_));
    }
}

/// Fetches tiles and appends them to those that the span has.
void TileRing::fetch(Span& s, const TileRange& tiles) {
    const char* base = nullptr;
    if (s.frame >= 0) {
        const int64_t place = s.frame * shape_.all_tiles() + shape_.place(s.sequence, tiles.first);
        base = static_cast<const char*>(frame_memory_.data()) + static_cast<size_t>(place) * shape_.tile_bytes();
    } else {
        const auto at = static_cast<int64_t>(s.turn % slots_.size()) * span_ + tiles.first - s.tiles.first;
        base = memory() + static_cast<size_t>(at) * shape_.tile_bytes();
    }
    s.filled = transport_.fetch(const_cast<char*>(base), s.layer, s.sequence, tiles);
    if (s.frame < 0) slot(s.turn).filled = s.filled;
    s.tiles.end = tiles.end;
}

/// Returns the tiles from `first` on that are resident when later work on compute runs; sets `kv` to their addresses.
TileRange TileRing::arrive(StreamedIndex layer, const Reading& reading, int64_t first, LayerKv& kv) {
    check(attended_run().layer == layer && readings_[attending_.reading] == reading,
          "kv ring: streamed layer {} of sequence {} is attended, {} of {} comes next", layer, reading.sequence,
          attended_run().layer, readings_[attending_.reading].sequence);
    fetch_ahead();
    if (in_frame()) {
        kv.tiles = frames_[index(attended_run().frame)].table;
        kv.first_tile = 0;
        return {first, reading.tiles.end};
    }
    const Span& s = span(used_ + passed_);
    const TileRange tiles{first, std::min(first + span_, reading.tiles.end)};
    check(used_ + passed_ < fetched_ && s.layer == layer && s.sequence == reading.sequence &&
              s.tiles.first == tiles.first && s.tiles.end == tiles.end,
          "kv ring: tiles [{}, {}) of streamed layer {} are required, the span has [{}, {}) of {}", tiles.first,
          tiles.end, layer, s.tiles.first, s.tiles.end, s.layer);
    transport_.order().wait(Lane::kCompute, s.filled, "kv_stall");
    kv.tiles = s.frame >= 0 ? frames_[index(s.frame)].table : slot(s.turn).table;
    kv.first_tile = s.frame >= 0 ? 0 : tiles.first;
    return tiles;
}

// Frees what has been attended, unless the next attention also reads it.
void TileRing::leave() {
    if (in_frame()) return;
    if (attended_run().held()) {
        ++used_;
    } else if (stay()) {
        ++passed_;
    } else {
        slot(span(used_++).turn).read = transport_.order().record(Lane::kCompute);
        ++turns_used_;
    }
}

// One reading of an attention is done.
void TileRing::attended() {
    if (++attending_.reading < readings_.size()) return;
    attending_.reading = 0;
    passed_ = 0;
    const ReadRun& run = attended_run();
    if (++attending_.attention < run.attentions) return;
    attending_.attention = 0;
    ++attending_.run;
    if (!run.held() || !run.last) return;
    Frame& f = frames_[index(run.frame)];
    f.read = transport_.order().record(Lane::kCompute);
    f.taken = false;
}

void TileRing::end() {
    next_ = {};
    seek(next_);
    fetch_ahead();
}

void TileRing::forget() {
    next_ = {.run = runs_.size()};
    discard_from(used_);
    for (Frame& f : frames_) f.taken = false;
}

void TileRing::claim(Lane lane, const TileRange& tiles) {
    std::array<Ordering::Mark, 3 * kMaxSlots> marks;
    size_t n = 0;
    for (int64_t t = tiles.first / span_; t * span_ < tiles.end; ++t) {
        const Slot& s = slots_[index(t)];
        for (const Ordering::Mark& mark : {s.filled, s.read, s.stored}) marks[n++] = mark;
    }
    transport_.order().wait_all(lane, std::span(marks).first(n), lane == Lane::kCompute ? "kv_stall" : "wait");
}

void TileRing::release(Lane lane, const TileRange& tiles) {
    release(lane, tiles, transport_.order().record(lane));
}

void TileRing::release(Lane lane, const TileRange& tiles, const Ordering::Mark& mark) {
    for (int64_t t = tiles.first / span_; t * span_ < tiles.end; ++t) {
        Slot& s = slots_[index(t)];
        (lane == Lane::kH2d ? s.filled : lane == Lane::kD2h ? s.stored : s.read) = mark;
    }
}

}  // namespace trireme
