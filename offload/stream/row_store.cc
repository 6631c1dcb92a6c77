#include "offload/stream/row_store.h"

#include <algorithm>
#include <array>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

int64_t blocks_of(int64_t rows, int64_t block_rows) {
    return (rows + block_rows - 1) / block_rows;
}

}  // namespace

MemoryBytes RowStore::memory(int64_t rows, int64_t cols, int64_t block_rows, bool on_host) {
    const auto bytes = [&](int64_t n) { return static_cast<size_t>(n * cols) * sizeof(float); };
    if (!on_host) return {.device = bytes(rows)};
    return {.device = rows > 0 ? bytes(kPlaces * block_rows) : 0, .host = bytes(rows)};
}

RowStore::RowStore(Device& device, Transport* transport, int64_t rows, int64_t cols, int64_t block_rows, bool on_host)
    : transport_(transport),
      cols_(cols),
      block_rows_(block_rows),
      on_host_(on_host),
      device_(device, memory(rows, cols, block_rows, on_host).device),
      host_(device, memory(rows, cols, block_rows, on_host).host),
      places_(on_host ? static_cast<size_t>(kPlaces) : 0),
      stored_(on_host ? static_cast<size_t>(blocks_of(rows, block_rows)) : 0) {
    check(!on_host || transport != nullptr, "row store: rows in host memory, and no way there");
}

void RowStore::begin(int64_t rows) {
    rows_ = rows;
    for (Place& p : places_) {
        p.block = -1;
        if (on_host_) order().wait(Lane::kD2h, p.filled);  // fetched but not used: its host rows will be overwritten
    }
}

int64_t RowStore::rows_of(int64_t block) const {
    return std::min(block_rows_, rows_ - block * block_rows_);
}

Tensor RowStore::rows_at(const Place& place) const {
    const int64_t at = (&place - places_.data()) * block_rows_ * cols_;
    return Tensor(static_cast<float*>(device_.data()) + at, DType::kF32, {rows_of(place.block), cols_});
}

HostTensor RowStore::host_rows(int64_t block) const {
    return HostTensor(static_cast<float*>(host_.data()) + block * block_rows_ * cols_, DType::kF32,
                      {rows_of(block), cols_});
}

RowStore::Place* RowStore::find(int64_t block) {
    const auto held = std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.block == block; });
    return held == places_.end() ? nullptr : &*held;
}

RowStore::Place& RowStore::take(Lane lane, int64_t block) {
    Place& p = places_[next_place_];
    next_place_ = (next_place_ + 1) % places_.size();
    order().wait_all(lane, std::array{p.filled, p.used, p.stored}, lane == Lane::kCompute ? "rows_stall" : "wait");
    p.block = block;
    return p;
}

RowStore::Place& RowStore::fetch(int64_t block) {
    if (Place* held = find(block)) return *held;
    Place& p = take(Lane::kH2d, block);
    order().wait(Lane::kH2d, stored_[index(block)]);
    transport_->copy_rows(rows_at(p), host_rows(block));
    p.filled = order().record(Lane::kH2d);
    return p;
}

Tensor RowStore::open(int64_t block, Use use) {
    if (!on_host_) {
        return Tensor(static_cast<float*>(device_.data()) + block * block_rows_ * cols_, DType::kF32,
                      {rows_of(block), cols_});
    }
    Place* const held = find(block);
    if (use == Use::kWrite && held != nullptr) {
        order().wait_all(Lane::kCompute, std::array{held->filled, held->used, held->stored}, "rows_stall");
    }
    Place& p = use != Use::kWrite ? fetch(block) : held != nullptr ? *held : take(Lane::kCompute, block);
    p.use = use;
    if (use == Use::kWrite) return rows_at(p);
    order().wait(Lane::kCompute, p.filled, "rows_stall");
    // If there are few blocks, one may still be in its place, and the copy of its last change may still be reading it.
    if (use == Use::kChange) order().wait(Lane::kCompute, p.stored, "rows_stall");
    fetch((block + 1) % blocks_of(rows_, block_rows_));  // after the last block the first, for the next layer
    return rows_at(p);
}

void RowStore::close(int64_t block) {
    if (!on_host_) return;
    Place* p = find(block);
    check(p != nullptr, "row store: block {} is closed and was not open", block);
    p->used = order().record(Lane::kCompute);
    if (p->use == Use::kRead) return;
    order().wait(Lane::kD2h, p->used);
    transport_->copy_rows(host_rows(block), rows_at(*p));
    p->stored = stored_[index(block)] = order().record(Lane::kD2h);
}

}  // namespace trireme
