#include "model/batch.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace trireme {

Rope::Rope(const RopeConfig& config, int64_t head_dim) : config_(config), head_dim_(head_dim) {
    table_ = rope_table(config_, head_dim_, /*length=*/1);
}

void Rope::fill(std::span<float> out, int64_t position, int64_t length) {
    if (config_.scaling == RopeScaling::kDynamic && length != table_length_) {
        rope_table(config_, head_dim_, length, table_);
        table_length_ = length;
    }
    const size_t pairs = table_.inv_freq.size();
    for (size_t i = 0; i < pairs; ++i) {
        const float angle = static_cast<float>(position) * table_.inv_freq[i];
        out[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * table_.attention_scale;
        out[pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * table_.attention_scale;
    }
}

BatchMaker::BatchMaker(Device& device, Stream& stream, Rope& rope, int64_t head_dim, int64_t max_rows)
    : stream_(stream), rope_(rope), head_dim_(head_dim), max_rows_(max_rows) {
    const Shape shape{max_rows * (4 + kMaxRows + head_dim) * 4};
    host_ = Arena<Space::kHost>(device, kSlots * Arena<Space::kHost>::bytes_of(DType::kU8, shape));
    device_ = Arena<Space::kDevice>(device, Arena<Space::kDevice>::bytes_of(DType::kU8, shape));
    for (Slot& slot : slots_) slot = {host_.take(DType::kU8, shape), {}};
    on_device_ = device_.take(DType::kU8, shape);
}

BatchMaker::Slot& BatchMaker::next_slot() {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    if (slot.free.stream != nullptr) stream_.synchronize(slot.free);  // sent four forwards ago
    return slot;
}

BatchMaker::Fields BatchMaker::fields(void* base) const {
    auto* i32 = static_cast<int32_t*>(base);
    int32_t* ancestors = i32 + 4 * max_rows_;
    return {i32,
            i32 + max_rows_,
            i32 + 2 * max_rows_,
            i32 + 3 * max_rows_,
            ancestors,
            reinterpret_cast<float*>(ancestors + kMaxRows * max_rows_)};
}

Batch BatchMaker::send(Slot& slot, int64_t rows, int64_t max_positions) {
    stream_.copy(on_device_, slot.host);
    slot.free = stream_.record();
    const Fields f = fields(on_device_.data());
    Batch b;
    b.rows = rows;
    b.ids = Tensor(f.ids, DType::kI32, {rows});
    b.cos_sin = Tensor(f.cos_sin, DType::kF32, {rows, head_dim_});
    b.view = {.positions = Tensor(f.positions, DType::kI32, {rows}),
              .sequences = Tensor(f.sequences, DType::kI32, {rows}),
              .committed = Tensor(f.committed, DType::kI32, {rows}),
              .ancestors = Tensor(f.ancestors, DType::kI32, {rows, kMaxRows}),
              .max_positions = max_positions};
    return b;
}

Batch BatchMaker::decode(std::span<const Row> rows, std::span<const int64_t> committed, int64_t max_positions) {
    const auto n = static_cast<int64_t>(rows.size());
    check(n >= 1 && n <= max_rows_ && n <= kMaxRows, "decode: {} rows, at most {}", n, kMaxRows);
    Slot& slot = next_slot();
    const Fields f = fields(slot.host.data());
    int64_t reach = 0;
    for (int64_t r = 0; r < n; ++r) {
        const Row& row = rows[static_cast<size_t>(r)];
        const int64_t base = committed[static_cast<size_t>(row.sequence)];
        const int64_t depth = row.position - base;
        const Row* parent = row.parent < 0 ? nullptr : &rows[static_cast<size_t>(row.parent)];
        check(row.parent < r && depth >= 0 && depth < kMaxRows &&
                  (parent ? parent->position == row.position - 1 && parent->sequence == row.sequence : depth == 0),
              "decode: row {} at position {} does not follow its parent {}", r, row.position, row.parent);
        f.ids[r] = row.token;
        f.positions[r] = row.position;
        f.sequences[r] = row.sequence;
        f.committed[r] = static_cast<int32_t>(base);
        int32_t* mine = f.ancestors + r * kMaxRows;
        if (parent) std::copy_n(f.ancestors + row.parent * kMaxRows, depth, mine);
        mine[depth] = static_cast<int32_t>(r);
        rope_.fill({f.cos_sin + r * head_dim_, static_cast<size_t>(head_dim_)}, row.position, row.position + 1);
        reach = std::max<int64_t>(reach, row.position + 1);
    }
    check(max_positions == 0 || reach <= max_positions, "decode: a row at {}, the bound is {}", reach - 1,
          max_positions);
    return send(slot, n, max_positions == 0 ? reach : max_positions);
}

Batch BatchMaker::prefill(std::span<const int32_t> tokens, int64_t sequence, int64_t position, int64_t length) {
    const auto n = static_cast<int64_t>(tokens.size());
    check(n >= 1 && n <= max_rows_, "prefill: {} rows, at most {}", n, max_rows_);
    Slot& slot = next_slot();
    const Fields f = fields(slot.host.data());
    for (int64_t r = 0; r < n; ++r) {
        f.ids[r] = tokens[static_cast<size_t>(r)];
        f.positions[r] = static_cast<int32_t>(position + r);
        f.sequences[r] = static_cast<int32_t>(sequence);
        f.committed[r] = static_cast<int32_t>(position + n);
        rope_.fill({f.cos_sin + r * head_dim_, static_cast<size_t>(head_dim_)}, position + r, length);
    }
    Batch batch = send(slot, n, position + n);
    batch.prefill = true;
    return batch;
}

}  // namespace trireme
