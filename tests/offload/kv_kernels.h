#pragma once
/// Base of kernels for tests, which implement only those that a cache calls.

#include "kernels/kernels.h"

namespace trireme::test {

class KvKernels : public Kernels {
  protected:
    explicit KvKernels(Phase phase)
        : Kernels(phase, {.max_rows = kPrefillRows, .max_k = 16, .max_n = 16, .heads = 1, .head_dim = 8}) {}

  private:
    static void never() { check(false, "an operation that a cache does not call"); }
    void do_embed(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_rmsnorm(const Tensor&, const Tensor&, const Tensor&, float) override { never(); }
    void do_matmul(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_matmul_blocks(const Tensor&, const Tensor&, const WeightMatrix&) override { never(); }
    void do_embed_blocks(const Tensor&, const WeightMatrix&, const Tensor&) override { never(); }
    void do_rope(const Tensor&, const Tensor&, int64_t) override { never(); }
    void do_swiglu(const Tensor&, const Tensor&) override { never(); }
    void do_add(const Tensor&, const Tensor&) override { never(); }
    void do_gather_rows(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_sample(const Tensor&, const Tensor&, int64_t, const Tensor&, const SamplingRule&, const Tensor&,
                   const Tensor&) override {
        never();
    }
    void do_accept(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t) override { never(); }
    void do_chunk_means(const Tensor&, const LayerKv&, int64_t, const TileRange&, int64_t) override { never(); }
    void do_choose_chunks(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&) override {
        never();
    }
    void do_gather_chunks(const LayerKv&, const LayerKv&, const Tensor&, const Tensor&, int64_t,
                          const TileRange&) override {
        never();
    }
    void do_key_weights(const Tensor&, const Tensor&, const Tensor&, const LayerKv&, const Tensor&,
                        const RowsView&) override {
        never();
    }
    void do_expected_weights(const Tensor&, const Tensor&, const Tensor&, const LayerKv&, const Tensor&) override {
        never();
    }
    void do_pool_weights(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         const WeightPool&) override {
        never();
    }
    void do_slot_step(const SlotKv&, const Tensor&, const SlotRule&, int64_t) override { never(); }
    void do_slot_gather(const LayerKv&, const SlotKv&, const Tensor&, const SlotCall&) override { never(); }
    void do_slot_scores(const Tensor&, const SlotKv&, const LayerKv&, const Tensor&, const Tensor&, const SlotRule&,
                        const SlotCall&) override {
        never();
    }
    void do_slot_keys(const Tensor&, const SlotKv&, const Tensor&, const Tensor&, const SlotRule&,
                      const SlotCall&) override {
        never();
    }
    void do_slot_share(const SlotKv&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const SlotShare&,
                       const SlotRule&, const SlotCall&) override {
        never();
    }
    void do_slot_choose(const SlotKv&, const LayerKv&, const Tensor&, const Tensor&, const Tensor&, const SlotRule&,
                        const SlotCall&) override {
        never();
    }
};

}  // namespace trireme::test
