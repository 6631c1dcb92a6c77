#include "offload/evicting/parallel_cache.h"

#include <array>

#include "offload/upload.h"
#include "runtime/error.h"

namespace trireme {

MemoryBytes ParallelCache::memory_for() {
    return {.device = Arena<Space::kDevice>::bytes_of(DType::kI32, {kPrefillRows, kMaxRows})};
}

ParallelCache::ParallelCache(Device& device, Stream& compute, const KvShape& kv, const Make& make)
    : KvCache(kv), device_(device, memory_for().device), zeros_(device_.take(DType::kI32, {kPrefillRows, kMaxRows})) {
    Upload(device, compute).operator()<int32_t>(zeros_, [](int64_t, int64_t) { return 0; });
    for (int64_t sequence = 0; sequence < kv.sequences; ++sequence) {
        views_.push_back(make(one_sequence(kv), sequence == 0 ? nullptr : views_[0].get()));
    }
    facts_ = of(0).facts();
    for (size_t i = 1; i < views_.size(); ++i) facts_.memory += views_[i]->facts().memory;
    facts_.retained = nullptr;
    facts_.varies.assign(static_cast<size_t>(kv.owner_layers), true);  // rows belong to other sequences each time
    groups_.reserve(kMaxRows);
}

void ParallelCache::begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads) {
    groups_.assign(groups.begin(), groups.end());
    for (const RowGroup& g : groups) {
        EvictingCache& cache = of(g.sequence);
        cache.drop();
        for (int64_t r = 0; r < g.rows; ++r) cache.stage(0, -1);
        cache.begin(std::array{RowGroup{.sequence = 0, .first = 0, .rows = g.rows, .bound = g.bound}}, reads);
    }
}

/// A sequence's row of a decode forward, as its cache has it: staged row 0 of sequence 0.
RowsView ParallelCache::rows_of(const RowGroup& g, const RowsView& rows) const {
    RowsView own = rows.some(g.first, g.rows, g.bound);
    own.sequences = Tensor(zeros_.data(), DType::kI32, {g.rows});
    own.ancestors = zeros_.first_rows(g.rows);
    own.staged = g.rows;
    return own;
}

/// A sequence's cache, in the forward's current pass.
EvictingCache& ParallelCache::in_pass(int64_t sequence) const {
    of(sequence).set_provisional(provisional());
    return of(sequence);
}

void ParallelCache::write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                          const Tensor& change) {
    if (prefill_ >= 0) {
        RowsView own = rows;
        own.sequences = Tensor(zeros_.data(), DType::kI32, {k.rows()});
        return in_pass(prefill_).write(op, owner, k, v, own, change);
    }
    for (const RowGroup& g : groups_) {
        in_pass(g.sequence)
            .write(op, owner, k.slice_rows(g.first, g.rows), v.slice_rows(g.first, g.rows), rows_of(g, rows));
    }
}

void ParallelCache::attend(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    AttentionCall own = a;
    if (prefill_ >= 0) {
        own.rows.sequences = Tensor(zeros_.data(), DType::kI32, {a.q.rows()});
        return in_pass(prefill_).attend(op, owner, own);
    }
    for (const RowGroup& g : groups_) {
        own.out = a.out.slice_rows(g.first, g.rows);
        own.q = a.q.slice_rows(g.first, g.rows);
        own.rows = rows_of(g, a.rows);
        in_pass(g.sequence).attend(op, owner, own);
    }
}

void ParallelCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    check(rows.size() <= 1, "evicting caches: {} rows of a sequence are kept", rows.size());
    const std::array<int32_t, 1> first = {0};
    of(sequence).keep(op, 0, std::span(first).first(rows.size()));
    commit(sequence, of(sequence).length(0));
}

void ParallelCache::truncate(int64_t sequence, int64_t n) {
    prefill_ = -1;
    of(sequence).truncate(0, n);
    commit(sequence, n);
}

void ParallelCache::fork(int64_t sequence) {
    of(sequence).fork_from(of(0));
    commit(sequence, length(0));
}

void ParallelCache::begin_prefill(int64_t sequence, int64_t n) {
    of(sequence).begin_prefill(0, n);
    prefill_ = sequence;
}

void ParallelCache::end() {
    if (prefill_ < 0) return;
    of(prefill_).end();
    commit(prefill_, of(prefill_).length(0));
    prefill_ = -1;
}

}  // namespace trireme
