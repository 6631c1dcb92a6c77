#pragma once
/// Heavy hitters of a full view's text (H2O, arXiv 2306.14048), for a level that proposes: every KV head keeps some
/// tokens, chosen by the attention that the full model's own queries give. The full view checks what is proposed, so
/// nothing is lost where the choice is bad.

#include <memory>
#include <span>
#include <vector>

#include "offload/full_view.h"
#include "offload/policies/bounded_model.h"
#include "offload/policies/bounded_shape.h"
#include "offload/policies/heavy_memory.h"
#include "offload/policies/kv_set.h"

namespace trireme {

/// What a BoundedView of policy h2o would hold that were fed, token by token, with the queries, keys and values of the
/// full model: a prompt's scores are counted as its rows are attended, layer by layer, and when all readers of an owner
/// are over, each of its heads chooses out of the full view's tiles; a row that the full view keeps takes its slot with
/// the bits that it was staged with. Rows that are not kept leave no trace. True positions. One sequence.
class HeavySet final : public KvFollower, public KvSet {
  public:
    /// Follows `full` while it lives, on whose stream, `compute`, all work is enqueued; a prefill of it must go layer
    /// by layer. shape.returns: a text is truncated to its prompt again. Errors: Exit::kOs.
    HeavySet(Device& device, Stream& compute, FullView& full, const BoundedShape& shape, BoundedModel model);
    ~HeavySet() override;
    static MemoryBytes memory_for(const KvShape& kv, const BoundedShape& shape, const KvReaders& readers) {
        return {.device = HeavyMemory::bytes(kv, shape, readers)};
    }
    /// Of the kernels that come on top, in decode phase.
    static KernelLimits step_limits(const KvShape& kv, int64_t heads);
    /// The most elements, of each KV head, that BoundedModel::exchange is given.
    static int64_t exchanged(const KvShape& kv, const BoundedShape& shape);

    int64_t tokens() const override { return tokens_; }
    int64_t slots() const override { return seen(tokens_); }
    int64_t most_slots() const override { return shape_.tokens; }
    int64_t seen(int64_t tokens) const override { return std::min(tokens, shape_.tokens); }
    LayerKv layer(OwnerIndex owner) const override;
    /// From here on it follows what is kept, until a text begins again. Errors: Exit::kInternal if it has missed some.
    void taken_over() override;
    void begin_reading(Stream& reader) override { reader.wait(ready_); }
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
    void truncated(int64_t sequence, int64_t n) override;
    void prefilled(int64_t sequence) override;

    /// What the heads keep, for tests: i32 and f32 [owners, kv_heads, slots], i32 [owners, kv_heads].
    const SlotKv& slots_kv() const { return m_.kv; }

  private:
    /// One reader each of owners that follow each other, all alike: their attentions are put together.
    struct Run {
        OwnerIndex first;
        int64_t owners = 0;
        int64_t place = 0;  // of the first one's queries; the others' follow
        bool strict = false;
        WeightPool pool;
    };
    /// What has been done so far with a prompt's keys and values of an owner.
    struct OwnerProgress {
        int64_t readers_left = 0;  // layers that have not attended them yet
        bool written = false;
    };

    void put_together();
    void upload(Device& device);
    void choose_when_over(Kernels& op, OwnerIndex owner, const LayerKv& kv);
    void step(Kernels& op, int32_t row, int64_t token);

    KvShape kv_;
    BoundedShape shape_;
    BoundedModel model_;
    FullView& full_;
    Stream& compute_;
    int64_t together_;  // owners that one attention is for
    Arena<Space::kDevice> device_;
    HeavyMemory m_;
    std::unique_ptr<Kernels> stepping_;
    std::vector<int64_t> places_;  // by layer: of its queries; -1: they do not count
    std::vector<Run> runs_;
    std::vector<OwnerProgress> progress_;  // by owner, of a prefill
    bool graphs_;                          // owners on chip may be recorded: then every forward enqueues the same

    int64_t tokens_ = 0, prompt_ = 0;
    bool prefill_ = false, followed_ = false;
    bool moved_ = false, behind_ = false;  // slots are not the prompt's any more; tokens were kept and not followed
    Event ready_, read_;
};

}  // namespace trireme
