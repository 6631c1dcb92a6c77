#pragma once
/// GpuSlotKernels: the GPU backend's slot operations (kernels/slots.h), and what they need from a prefill. It is the
/// base of GpuKernels; gpu_kernels.h describes a Launcher.

#include <algorithm>
#include <utility>

#include "kernels/bytes.h"
#include "kernels/cuda/expected_weights.h"
#include "kernels/cuda/key_weights.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/slot_choose.h"
#include "kernels/cuda/slot_share.h"

namespace trireme::gpu {

/// The slots of an evicting cache, as kernels take them.
inline Slots slots_of(const SlotKv& kv) {
    const LayerKv all = {
        .layout = kv.layout,
        .tiles = Tensor(kv.tiles.data(), DType::kI64, {kv.owners() * kv.layout.kv_heads, kv.tiles.dim(2)}),
        .staged_k = kv.staged_k,
        .staged_v = kv.staged_v,
        .counts = kv.counts};
    return {kv_of(all),
            static_cast<int32_t*>(kv.tokens.data()),
            static_cast<int32_t*>(kv.ranks.data()),
            static_cast<float*>(kv.scores.data()),
            static_cast<int32_t*>(kv.counts.data()),
            static_cast<int32_t*>(kv.budgets.data()),
            kv.layout.kv_heads,
            kv.slots()};
}

/// Slot operations over a Launcher.
template <class Launcher>
class GpuSlotKernels : public Kernels {
  protected:
    GpuSlotKernels(Launcher launcher, Phase phase, const KernelLimits& limits)
        : Kernels(phase, limits), launcher_(std::move(launcher)) {}

    Launcher launcher_;

  private:
    void do_key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                        const Tensor& kv_of_head, const RowsView& rows) override {
        with_kv_type(kv.layout.k_type, [&](auto t) {
            using Body = KeyWeights<decltype(t)>;
            launcher_.template launch<Body>(
                "key_weights", bytes::attention(kv, rows, {}) / 2,
                {div_up(rows.max_slots, Body::kKeys), kv_of_head.rows()},
                {kv_of(kv), seen_of(phase(), q, kv, rows), rows_of<const float>(q), rows_of<const float>(totals),
                 rows_of<float>(sums), static_cast<const int32_t*>(kv_of_head.data()), rows.max_slots, score_scale(kv),
                 angles_of(phase(), kv)});
        });
    }
    void do_expected_weights(const Tensor& weights, const Tensor&, const Tensor& q, const LayerKv& kv,
                             const Tensor& kv_of_head) override {
        const auto* heads = static_cast<const int32_t*>(kv_of_head.data());
        const auto* begins = static_cast<const int32_t*>(kv.begins.data());
        with_kv_type(kv.layout.k_type, [&](auto t) {
            using Body = ExpectedExponents<decltype(t)>;
            launcher_.template launch<Body>(
                "expected_exponents", bytes::kv_write(kv, weights.cols()) / 2,
                {div_up(weights.cols(), Body::kKeys), kv_of_head.rows()},
                {kv_of(kv), rows_of<const float>(q), rows_of<float>(weights), heads, begins, q.rows(), weights.cols(),
                 score_scale(kv) / kLog2E, angles_of(phase(), kv)});
        });
        launcher_.template launch<ExpectedWeights>("expected_weights", bytes::kv_write(kv, weights.cols()) / 2,
                                                   {kv_of_head.rows()},
                                                   {kv_of(kv), rows_of<float>(weights), heads, begins, weights.cols()});
    }
    void do_pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                         const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) override {
        launcher_.template launch<PoolWeights>(
            "pool_weights", weights.bytes(), {div_up(out.dim(2), PoolWeights::kThreads), out.dim(1), out.dim(0)},
            {static_cast<float*>(out.data()), static_cast<const float*>(weights.data()),
             static_cast<const float*>(tops.data()), static_cast<const float*>(totals.data()),
             static_cast<const int32_t*>(kv_of_head.data()), static_cast<const float*>(shares.data()), out.dim(1),
             kv_of_head.rows(), out.dim(2), weights.dim(2), tops ? tops.dim(2) : 0, pool.by, pool.share, pool.more,
             static_cast<const int32_t*>(pool.counts.data())});
    }
    void do_slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) override {
        launcher_.template launch<SlotStep>("slot_step", kv.scores.bytes(), {kv.layout.kv_heads, kv.owners()},
                                            {slots_of(kv), static_cast<const float*>(weights.data()), rule, token});
    }
    void do_slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) override {
        const int64_t runs = std::max<int64_t>(1, div_up(std::min(kv.slots(), call.cached), SlotGather::kSlots));
        launcher_.template launch<SlotGather>("slot_gather", 2 * bytes::kv_write(to, call.cached),
                                              {runs, kv.layout.kv_heads},
                                              {kv_of(to), slots_of(kv), static_cast<int32_t*>(to.begins.data()),
                                               static_cast<int32_t*>(order.data()), call});
    }
    void do_slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                        const Tensor& weights, const SlotRule& rule, const SlotCall& call) override {
        if (rule.by == ScoreBy::kKeyDiff) {
            return launcher_.template launch<SlotDifferences>(
                "slot_scores", 3 * bytes::kv_write(from, call.entries()), {kv.layout.kv_heads},
                {static_cast<float*>(scores.data()), slots_of(kv), kv_of(from), call});
        }
        launcher_.template launch<SlotScores>(
            "slot_scores", scores.bytes(), {div_up(call.entries(), SlotScores::kThreads), kv.layout.kv_heads},
            {static_cast<float*>(scores.data()), slots_of(kv), kv_of(from), static_cast<const int32_t*>(order.data()),
             static_cast<const float*>(weights.data()), rule, call});
    }
    void do_slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                      const SlotRule& rule, const SlotCall& call) override {
        launcher_.template launch<SlotKeys>(
            "slot_keys", scores.bytes() + keys.bytes(),
            {div_up(call.entries(), SlotKeys::kThreads), kv.layout.kv_heads},
            {static_cast<uint64_t*>(keys.data()), slots_of(kv), static_cast<const int32_t*>(order.data()),
             static_cast<const float*>(scores.data()), rule, call});
    }
    void do_slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                       const Tensor& largest, const SlotShare& share, const SlotRule& rule,
                       const SlotCall& call) override {
        const int64_t tiles_of_head = kv.tiles.dim(2);
        launcher_.template launch<ShareSlots>(
            "slot_share", keys.bytes(), {1},
            {slots_of(kv), static_cast<int64_t*>(kv.tiles.data()) + call.owner * kv.layout.kv_heads * tiles_of_head,
             tiles_of_head, static_cast<char*>(tiles.data()), tiles.rows(), tiles.cols(),
             static_cast<uint64_t*>(keys.data()), keys.rows(), static_cast<const int32_t*>(rows.data()), rows.rows(),
             static_cast<int32_t*>(largest.data()) + call.owner, share, rule, call});
    }
    void do_slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                        const Tensor& keys, const SlotRule& rule, const SlotCall& call) override {
        launcher_.template launch<SlotChoose>(
            "slot_choose", scores.bytes(), {kv.layout.kv_heads},
            {slots_of(kv), kv_of(from), static_cast<const int32_t*>(order.data()),
             static_cast<const float*>(scores.data()), static_cast<uint64_t*>(keys.data()), rule, call});
    }
};

}  // namespace trireme::gpu
