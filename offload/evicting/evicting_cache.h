#pragma once
/// EvictingCache: the cache of an evicting KV cache (--kv-policy). Every KV head retains some tokens, which a policy
/// chooses at the end of a prompt and at every decode step (H2O, arXiv 2306.14048, and its family). Its memory does not
/// grow with the sequence. It is on the device, and holds one sequence; ParallelCache combines several.

#include <memory>
#include <span>
#include <vector>

#include "offload/cache.h"
#include "offload/evicting/evicting_memory.h"
#include "offload/evicting/evicting_model.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/recent_queries.h"
#include "runtime/buffer.h"

namespace trireme {

/// A prefill goes layer by layer. An owner's keys and values are in scratch tiles, as entries in the order of ranks.
/// They remain there until its last reader has attended its last row, in its last pass; then each head chooses. A
/// decode step has one row, which is staged; in keep() every full head evicts a token, and the row takes its slot. The
/// attention of all layers that read an owner counts for its tokens. Ranks, scores and choices remain on the device.
/// The host stores only how many tokens the fullest head retains.
class EvictingCache final : public KvCache {
  public:
    /// `first`: a cache of another sequence with the same arguments, whose scratch this one uses; it must outlive this
    /// object. Errors: Exit::kOs.
    EvictingCache(Device& device, Stream& compute, const KvShape& kv, const EvictionShape& shape, EvictingModel model,
                  const EvictingCache* first = nullptr);
    /// Memory of the caches of all sequences of `kv`.
    static MemoryBytes memory_for(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers);
    /// Limits of the additional kernels, in prefill phase, that re-score; only policies that observe have them.
    static KernelLimits renewing_limits(const KvShape& kv, const EvictionShape& shape, int64_t heads);
    /// The most elements per KV head that EvictingModel::exchange is given.
    static int64_t exchanged(const KvShape& kv, const EvictionShape& shape);

    /// A sequence can be truncated to 0, to its own length, or to the end of the last prefill, if that was saved
    /// (EvictionShape::returns).
    KvExtent extent(int64_t sequence) const override {
        return {.slots = kept_ + extra_, .truncate_from = length(sequence), .saved = saved_tokens_};
    }

    void begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads) override;
    void end() override;
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
               const Tensor& change = {}) override;
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) override;

    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    /// Retains the heavy hitters and fewer recent tokens (evict_for_space of the H2O cookbook). A session calls it
    /// before it reads a turn.
    bool reserve(Kernels& op, int64_t sequence, int64_t tokens) override;
    void truncate(int64_t sequence, int64_t n) override;

    /// Takes over the tokens of `from`, the cache of another sequence, which has just read a prompt. Enqueues, except
    /// if heads share slots.
    void fork_from(const EvictingCache& from);
    void state(Archive& ar) override;

    void begin_prefill(int64_t sequence, int64_t n) override;

  private:
    /// A prefill's progress with the keys and values of an owner, in the passes that are not repeated.
    struct OwnerProgress {
        int64_t readers_left = 0;  // layers that have not attended them yet
        bool written = false;
    };

    LayerKv layer(OwnerIndex owner) const;
    void addresses(Archive& ar, const Tensor& table);
    int64_t place_of(OwnerIndex owner) const { return model_.readers.place(owner); }
    SlotCall call_of(OwnerIndex owner) const;
    static CacheFacts facts_of(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers, bool lent);
    void upload(Device& device);
    void attend_prompt(Kernels& op, OwnerIndex owner, const AttentionCall& call);
    void clear_sums(int64_t entries);
    void count(Kernels& op, const Tensor& q, const Tensor& totals, const LayerKv& kv, const RowsView& rows);
    void pool_sums(Kernels& op, LayerIndex layer);
    void rescore(Kernels& op, const SlotRule& rule);
    void upload_turns(int64_t text, int64_t n);
    void count_recent(Kernels& op, LayerIndex layer, int64_t n);
    void expect(Kernels& op, LayerIndex layer, int64_t text, int64_t n);
    void evict_when_complete(Kernels& op, OwnerIndex owner);
    void score_and_choose(Kernels& op, int64_t place, const SlotCall& call, const SlotRule& rule, bool weighed);
    void share_slots(Kernels& op, int64_t place, const Tensor& scores, const SlotRule& rule, const SlotCall& call);
    void read_largest();
    void save_prompt();

    EvictionShape shape_;
    EvictingModel model_;
    // Budgets of a head: the largest of all owners, and the smallest; the mean, if heads share slots.
    int64_t most_, least_;
    int64_t of_head_;    // the most tokens that a single head may retain
    int64_t kept_ = 0;   // tokens that heads retain now, in the owner that has most
    int64_t extra_ = 0;  // the largest budget of a head, minus most_
    Stream& compute_;
    Arena<Space::kDevice> device_;
    EvictingMemory m_;
    Tensor kv_of_head_;                  // the last attention call's
    std::unique_ptr<Kernels> renewing_;  // prefill kernels for decode steps that re-score
    std::unique_ptr<RecentQueries> recent_;
    Buffer<Space::kHost> turns_;  // rotations in flight to the device
    std::vector<float> ahead_;    // EvictionShape::expects(): mean rotation to the next positions, like a row of turns_
    bool turns_ready_ = false;    // turns_ has the rotations of the present call
    Buffer<Space::kHost> largest_, addresses_;
    Event turns_free_;
    int64_t saved_tokens_ = -1, saved_kept_ = 0, saved_extra_ = 0;  // at the end of the last prefill; -1: not saved
    SlotCall call_ = {};                   // the call of owner 0; the others' differ only in the owner
    bool prefill_ = false;                 // a prefill is running
    std::vector<OwnerProgress> progress_;  // by owner
    std::vector<OwnerIndex> in_places_;    // by place: the owner whose entries are there; -1: none
    int64_t steps_ = 0;                    // decode steps since the last prefill
};

}  // namespace trireme
