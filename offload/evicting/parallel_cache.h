#pragma once
/// ParallelCache: the cache of a level whose sequences have evicting caches (--kv-policy with --parallel). Each
/// sequence has a cache of its own; a forward attends them one after the other, and computes everything else for all
/// rows together.

#include <functional>
#include <memory>
#include <vector>

#include "offload/evicting/evicting_cache.h"
#include "runtime/buffer.h"
#include "runtime/index.h"

namespace trireme {

class ParallelCache final : public KvCache {
  public:
    /// Makes the cache of one sequence; `first`: the one of sequence 0, or null for this one itself.
    using Make = std::function<std::unique_ptr<EvictingCache>(const KvShape& of_one, const EvictingCache* first)>;
    /// All work is enqueued on `compute`. The level must not record graphs: rows belong to other sequences in each
    /// forward. Errors: Exit::kOs.
    ParallelCache(Device& device, Stream& compute, const KvShape& kv, const Make& make);
    /// The memory of this object, without the caches of sequences.
    static MemoryBytes memory_for();

    KvExtent extent(int64_t sequence) const override { return of(sequence).extent(0); }

    void begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads) override;
    void end() override;
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
               const Tensor& change = {}) override;
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) override;

    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    bool reserve(Kernels& op, int64_t sequence, int64_t tokens) override { return of(sequence).reserve(op, 0, tokens); }
    void truncate(int64_t sequence, int64_t n) override;
    void fork(int64_t sequence) override;

    void begin_prefill(int64_t sequence, int64_t n) override;

  private:
    EvictingCache& of(int64_t sequence) const { return *views_[index(sequence)]; }
    EvictingCache& in_pass(int64_t sequence) const;
    RowsView rows_of(const RowGroup& group, const RowsView& rows) const;

    std::vector<std::unique_ptr<EvictingCache>> views_;
    Arena<Space::kDevice> device_;
    Tensor
        zeros_;  // i32 [kPrefillRows, kMaxRows]: the rows' sequence, and their staged row, in the cache of a sequence
    std::vector<RowGroup> groups_;  // of the current decode forward
    int64_t prefill_ = -1;          // the sequence that reads a prompt; -1: none
};

}  // namespace trireme
