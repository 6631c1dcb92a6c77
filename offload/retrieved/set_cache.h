#pragma once
/// SetCache: the cache of a proposing level that attends a KvSet and its own staged rows. The set's full cache fills
/// the set and commits tokens: a prefill and keep() of this cache are errors. It can be truncated only to the set's
/// length.

#include <algorithm>
#include <vector>

#include "offload/retrieved/kv_set.h"
#include "runtime/buffer.h"

namespace trireme {

class SetCache final : public KvCache {
  public:
    /// `set` must outlive the cache, and belong to a full cache of the same shape, but for its number of
    /// sequences. The level enqueues its work on
    /// `compute`. Errors: Exit::kOs.
    SetCache(Device& device, Stream& compute, const KvShape& shape, KvSet& set);
    ~SetCache() override { set_.reader_leaves(); }
    /// The cache's memory, without the set's.
    static MemoryBytes memory_for(const KvShape& shape);

    KvExtent extent(int64_t) const override { return {.slots = set_.slots()}; }
    int64_t adopt_length() override;

    void begin(std::span<const RowGroup>, std::span<const OwnerIndex>) override { set_.begin_reading(compute_); }
    void end() override { set_.read_until(compute_.record()); }
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
               const Tensor& = {}) override {
        op.kv_stage(layers_[owner.at()], k, v, rows);
    }
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& a) override {
        op.attention(a.out, a.q, layers_[owner.at()], a.kv_of_head, a.rows);
    }
    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    void truncate(int64_t sequence, int64_t n) override;

    /// Serialises everything but the set, which is serialised separately, and restored before this.
    void state(Archive& ar) override {
        ar.section("set view");
        KvCache::state(ar);
    }

    void begin_prefill(int64_t sequence, int64_t n) override;

  private:
    Stream& compute_;
    KvSet& set_;
    Arena<Space::kDevice> device_;
    std::vector<LayerKv> layers_;  // by owner: the set's tiles, staged rows of its own
};

}  // namespace trireme
