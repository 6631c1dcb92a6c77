#include "model/batch.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

namespace {

int64_t ancestors_of(int64_t max_rows) {
    return max_rows > kMaxRows ? 0 : kMaxRows;
}

Shape slot_shape(int64_t head_dim, int64_t max_rows) {
    return {max_rows * (5 + ancestors_of(max_rows) + head_dim) * 4};
}

}  // namespace

/// Returns a multiple of `places`, so that host slots and device buffers wrap around together.
int64_t BatchMaker::slots_for(int64_t places) {
    return (kSlots + places - 1) / places * places;
}

MemoryBytes BatchMaker::memory(int64_t head_dim, int64_t max_rows, int64_t places) {
    const Shape slot = slot_shape(head_dim, max_rows);
    return {.device = static_cast<size_t>(places) * Arena<Space::kDevice>::bytes_of(DType::kU8, slot),
            .host = static_cast<size_t>(slots_for(places)) * Arena<Space::kHost>::bytes_of(DType::kU8, slot)};
}

BatchMaker::BatchMaker(Device& device, Stream& stream, Rope& rope, int64_t head_dim, int64_t max_rows, int64_t places)
    : stream_(stream),
      rope_(rope),
      head_dim_(head_dim),
      max_rows_(max_rows),
      ancestors_(ancestors_of(max_rows)),
      host_(device, memory(head_dim, max_rows, places).host),
      device_(device, memory(head_dim, max_rows, places).device) {
    const Shape shape = slot_shape(head_dim, max_rows);
    for (int64_t i = 0; i < slots_for(places); ++i) {
        slots_.push_back({.host = host_.take(DType::kU8, shape),
                          .device = i < places ? device_.take(DType::kU8, shape) : slots_[index(i % places)].device,
                          .free = {}});
    }
}

BatchMaker::Slot& BatchMaker::next_slot() {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    if (slot.free.stream != nullptr) stream_.synchronize(slot.free);  // its copy was enqueued at least four batches ago
    return slot;
}

BatchMaker::Fields BatchMaker::fields(void* base) const {
    auto* i32 = static_cast<int32_t*>(base);
    int32_t* ancestors = i32 + 5 * max_rows_;
    return {i32,
            i32 + max_rows_,
            i32 + 2 * max_rows_,
            i32 + 3 * max_rows_,
            i32 + 4 * max_rows_,
            ancestors,
            reinterpret_cast<float*>(ancestors + ancestors_ * max_rows_)};
}

Batch BatchMaker::send(Slot& slot, int64_t rows, const Bounds& bounds) {
    stream_.upload(slot.device, slot.host);
    slot.free = stream_.record();
    const Fields f = fields(slot.device.data());
    Batch b;
    b.rows = rows;
    b.ids = Tensor(f.ids, DType::kI32, {rows});
    b.cos_sin = Tensor(f.cos_sin, DType::kF32, {rows, head_dim_});
    b.cache = {.slots = Tensor(f.slots, DType::kI32, {rows}),
               .sequences = Tensor(f.sequences, DType::kI32, {rows}),
               .cached = Tensor(f.cached, DType::kI32, {rows}),
               .ancestors = Tensor(f.ancestors, DType::kI32, {rows, ancestors_}),
               .max_slots = bounds.slots,
               .staged = bounds.staged};
    b.before = Tensor(f.before, DType::kI32, {rows});
    return b;
}

Batch BatchMaker::decode(std::span<const Row> rows, int64_t padded, const KvCache& cache, int32_t first,
                         const Bounds& bounds) {
    const auto n = static_cast<int64_t>(rows.size());
    check(n >= 1 && n <= padded && padded <= max_rows_ && ancestors_ == kMaxRows,
          "decode: {} rows, {} with padding, at most {}", n, padded, kMaxRows);
    Slot& slot = next_slot();
    const Fields f = fields(slot.host.data());
    for (int64_t r = 0; r < n; ++r) {
        const Row& row = rows[index(r)];
        const std::span<const int32_t> path = cache.staged().path(first + static_cast<int32_t>(r));
        const int64_t depth = static_cast<int64_t>(path.size()) - 1, cached = cache.cached(row.sequence);
        check(row.position == cache.length(row.sequence) + depth,
              "decode: row {} of depth {} has the position {}, after {} tokens", r, depth, row.position,
              cache.length(row.sequence));
        f.ids[r] = row.token;
        f.slots[r] = static_cast<int32_t>(cached + depth);
        f.before[r] = f.slots[r] - 1;
        f.sequences[r] = row.sequence;
        f.cached[r] = static_cast<int32_t>(cached);
        std::copy(path.begin(), path.end(), f.ancestors + r * kMaxRows);
        const KvCache::Place at = cache.rope_position(row.sequence, row.position, row.position + 1);
        rope_.fill({f.cos_sin + r * head_dim_, static_cast<size_t>(head_dim_)}, at.position, at.text);
    }
    for (int64_t r = n; r < padded; ++r) {
        f.ids[r] = f.cached[r] = 0;
        f.slots[r] = f.before[r] = f.sequences[r] = kPadding;
        std::fill_n(f.cos_sin + r * head_dim_, head_dim_, 0.0F);
    }
    return send(slot, padded, bounds);
}

Batch BatchMaker::prefill(std::span<const int32_t> tokens, int64_t sequence, int64_t position, int64_t first_slot,
                          int64_t length) {
    const auto n = static_cast<int64_t>(tokens.size());
    check(n >= 1 && n <= max_rows_, "prefill: {} rows, at most {}", n, max_rows_);
    Slot& slot = next_slot();
    const Fields f = fields(slot.host.data());
    for (int64_t r = 0; r < n; ++r) {
        f.ids[r] = tokens[index(r)];
        f.slots[r] = static_cast<int32_t>(first_slot + r);
        f.before[r] = f.slots[r] - 1;
        f.sequences[r] = static_cast<int32_t>(sequence);
        f.cached[r] = static_cast<int32_t>(first_slot + n);
        rope_.fill({f.cos_sin + r * head_dim_, static_cast<size_t>(head_dim_)}, position + r, length);
    }
    Batch batch = send(slot, n, {.slots = first_slot + n});
    batch.prefill = true;
    return batch;
}

}  // namespace trireme
