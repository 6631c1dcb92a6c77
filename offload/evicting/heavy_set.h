#pragma once
/// HeavySet: the heavy hitters of a full cache (H2O, arXiv 2306.14048), which a proposing level attends (--spec h2o).
/// For every KV head it holds copies of some tokens, chosen by the attention of the full model's own queries. The full
/// model verifies what is proposed, so a bad choice loses nothing.

#include <memory>
#include <span>
#include <vector>

#include "offload/evicting/evicting_model.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/heavy_memory.h"
#include "offload/full/full_cache.h"
#include "offload/retrieved/kv_set.h"

namespace trireme {

/// The set holds what an EvictingCache of policy h2o would retain if it received, token by token, the queries, keys and
/// values of the full model. A prompt's scores are summed as its rows are attended, layer by layer. When all readers of
/// an owner are done, each of its heads chooses from the full cache's tiles. A row that the full cache commits takes
/// its slot with the bits that were staged; other rows have no effect. Positions are true positions. Of one of the
/// cache's sequences.
///
/// While no reader reads the set, committed tokens still take slots, but scores do not change: no attention is computed
/// for them. It took 10 % of a plain step on a CPU (2,000 tokens, 512 of them heavy hitters).
class HeavySet final : public KvObserver, public KvSet {
  public:
    /// Follows this sequence of `full` until destruction. All work is enqueued on `compute`, the stream of `full`,
    /// whose prefills must go layer by layer. shape.returns: the sequence may be truncated to its prompt. Errors:
    /// Exit::kOs.
    HeavySet(Device& device, Stream& compute, FullCache& full, const EvictionShape& shape, EvictingModel model,
             int64_t sequence = 0);
    ~HeavySet() override;
    static MemoryBytes memory_for(const KvShape& kv, const EvictionShape& shape, const KvReaders& readers) {
        return {.device = HeavyMemory::bytes(kv, shape, readers)};
    }
    /// Limits of the additional kernels, in decode phase.
    static KernelLimits step_limits(const KvShape& kv, int64_t heads);
    /// The most elements per KV head that EvictingModel::exchange is given.
    static int64_t exchanged(const KvShape& kv, const EvictionShape& shape);

    int64_t tokens() const override { return tokens_; }
    int64_t slots() const override { return std::min(tokens_, shape_.budget); }
    int64_t most_slots() const override { return shape_.budget; }
    int64_t visible() const override { return shape_.budget; }
    LayerKv layer(OwnerIndex owner) const override;
    /// From now on follows committed tokens, until a truncation to 0 or to the prompt. Errors: Exit::kInternal if
    /// tokens were committed and not followed.
    void taken_over() override;
    void begin_reading(Stream& reader) override {
        was_read_ = true;
        reader.wait(ready_);
    }
    void read_until(const Event& event) override { read_ = event; }
    void reader_leaves() noexcept override;

    void state(Archive& ar) override;

    void begin(int64_t sequence, int64_t tokens) override;
    void query(Kernels& op, OwnerIndex owner, LayerIndex layer, const Queries& queries,
               const Tensor& kv_of_head) override;
    bool wants_all_rows() const override { return true; }
    Tensor totals(int64_t rows) override { return m_.row_totals.first_rows(rows); }
    void attended(Kernels& op, OwnerIndex owner, const LayerKv& kv, const AttentionCall& call) override;
    void wrote(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv, int64_t first, int64_t n) override;
    void kept(Kernels& op, int64_t sequence, int64_t first, std::span<const int32_t> rows) override;
    /// `from`: the HeavySet of another sequence of the same cache, with the same shape.
    void forked(const KvObserver& from) override;
    void truncated(int64_t sequence, int64_t n) override;
    void prefilled(int64_t sequence) override;

    /// The tokens that heads hold, on the device, for tests.
    const SlotKv& slots_kv() const { return m_.kv; }

  private:
    /// One reader each of several consecutive owners, all alike: their attentions are combined in one call.
    struct Run {
        OwnerIndex first;
        int64_t owners = 0;
        int64_t place = 0;  // index of the first one's queries; the others' follow
        bool strict = false;
        WeightPool pool;
    };
    /// A prefill's progress with the keys and values of an owner.
    struct OwnerProgress {
        int64_t readers_left = 0;  // layers that have not attended them yet
        bool written = false;
    };

    void put_together();
    void upload(Device& device);
    void evict_when_complete(Kernels& op, OwnerIndex owner, const LayerKv& kv);
    void step(Kernels& op, int32_t row, int64_t token);
    void weigh(Kernels& op, const SlotKv& kv, int32_t row);

    KvShape kv_;        // of the sequence
    int64_t sequence_;  // in `full_`
    EvictionShape shape_;
    EvictingModel model_;
    FullCache& full_;
    Stream& compute_;
    int64_t together_;  // owners of one attention
    Arena<Space::kDevice> device_;
    HeavyMemory m_;
    std::unique_ptr<Kernels> stepping_;
    std::vector<int64_t> places_;  // by layer: index of its queries; -1: they do not count
    std::vector<Run> runs_;
    std::vector<OwnerProgress> progress_;  // by owner, in a prefill
    bool graphs_;                          // owners on chip may be recorded; every forward then enqueues the same work

    int64_t tokens_ = 0, prompt_ = 0;          // tokens that the set has followed; tokens of the prompt
    bool prefill_ = false, followed_ = false;  // a prefill is running; committed tokens are followed
    // A reader has read since taken_over(); the current forward's queries are attended when its rows are committed.
    bool was_read_ = false, weighs_ = false;
    bool moved_ = false, behind_ = false;  // slots differ from the prompt's; tokens were committed and not followed
    Event ready_, read_;
};

}  // namespace trireme
