#include "offload/row_store.h"

#include <algorithm>
#include <array>

#include "runtime/error.h"

namespace trireme {
namespace {

int64_t chunks_of(int64_t rows, int64_t chunk_rows) {
    return (rows + chunk_rows - 1) / chunk_rows;
}

}  // namespace

size_t RowStore::device_bytes(int64_t rows, int64_t cols, int64_t chunk_rows, bool on_host) {
    const int64_t held = rows > 0 && on_host ? kPlaces * chunk_rows : rows;
    return static_cast<size_t>(held * cols) * sizeof(float);
}

size_t RowStore::host_bytes(int64_t rows, int64_t cols, bool on_host) {
    return on_host ? static_cast<size_t>(rows * cols) * sizeof(float) : 0;
}

RowStore::RowStore(Device& device, Transport* transport, int64_t rows, int64_t cols, int64_t chunk_rows, bool on_host)
    : transport_(transport),
      cols_(cols),
      chunk_rows_(chunk_rows),
      on_host_(on_host),
      device_(device, device_bytes(rows, cols, chunk_rows, on_host)),
      host_(device, host_bytes(rows, cols, on_host)),
      places_(on_host ? static_cast<size_t>(kPlaces) : 0),
      stored_(on_host ? static_cast<size_t>(chunks_of(rows, chunk_rows)) : 0) {
    check(!on_host || transport != nullptr, "row store: rows in host memory, and no way there");
}

void RowStore::begin(int64_t rows) {
    rows_ = rows;
    for (Place& p : places_) {
        p.chunk = -1;
        if (on_host_) order().wait(Lane::kD2h, p.filled);  // sent for and never used: its rows are about to be stored
    }
}

int64_t RowStore::rows_of(int64_t chunk) const {
    return std::min(chunk_rows_, rows_ - chunk * chunk_rows_);
}

Tensor RowStore::rows_at(const Place& place) const {
    const int64_t at = (&place - places_.data()) * chunk_rows_ * cols_;
    return Tensor(static_cast<float*>(device_.data()) + at, DType::kF32, {rows_of(place.chunk), cols_});
}

HostTensor RowStore::host_rows(int64_t chunk) const {
    return HostTensor(static_cast<float*>(host_.data()) + chunk * chunk_rows_ * cols_, DType::kF32,
                      {rows_of(chunk), cols_});
}

RowStore::Place* RowStore::find(int64_t chunk) {
    const auto held = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.chunk == chunk; });
    return held == places_.end() ? nullptr : &*held;
}

RowStore::Place& RowStore::take(Lane lane, int64_t chunk) {
    Place& p = places_[next_place_];
    next_place_ = (next_place_ + 1) % places_.size();
    order().wait_all(lane, std::array{p.filled, p.used, p.stored}, lane == Lane::kCompute ? "rows_stall" : "wait");
    p.chunk = chunk;
    return p;
}

RowStore::Place& RowStore::fetch(int64_t chunk) {
    if (Place* held = find(chunk)) return *held;
    Place& p = take(Lane::kH2d, chunk);
    order().wait(Lane::kH2d, stored_[static_cast<size_t>(chunk)]);
    order().stream(Lane::kH2d).copy(rows_at(p), host_rows(chunk), "rows_h2d");
    p.filled = order().record(Lane::kH2d);
    return p;
}

Tensor RowStore::open(int64_t chunk, Use use) {
    if (!on_host_) {
        return Tensor(static_cast<float*>(device_.data()) + chunk * chunk_rows_ * cols_, DType::kF32,
                      {rows_of(chunk), cols_});
    }
    Place& p = use == Use::kWrite ? take(Lane::kCompute, chunk) : fetch(chunk);
    p.use = use;
    if (use == Use::kWrite) return rows_at(p);
    order().wait(Lane::kCompute, p.filled, "rows_stall");
    // Where few chunks never leave their places, the copy of the last change.
    if (use == Use::kChange) order().wait(Lane::kCompute, p.stored, "rows_stall");
    fetch((chunk + 1) % chunks_of(rows_, chunk_rows_));  // behind the last comes the first again, for the next layer
    return rows_at(p);
}

void RowStore::close(int64_t chunk) {
    if (!on_host_) return;
    Place* p = find(chunk);
    check(p != nullptr, "row store: chunk {} is closed and was not open", chunk);
    p->used = order().record(Lane::kCompute);
    if (p->use == Use::kRead) return;
    order().wait(Lane::kD2h, p->used);
    order().stream(Lane::kD2h).copy(host_rows(chunk), rows_at(*p), "rows_d2h");
    p->stored = stored_[static_cast<size_t>(chunk)] = order().record(Lane::kD2h);
}

}  // namespace trireme
