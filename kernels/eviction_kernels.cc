#include "kernels/eviction_kernels.h"

#include <algorithm>

#include "kernels/operand_checks.h"

namespace trireme {

void EvictionKernels::key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                                  const Tensor& kv_of_head, const RowsView& rows) {
    check_kv("key_weights", kv);
    check_places("key_weights", kv, phase_);
    check_rank("key_weights", "kv_of_head", kv_of_head, 1);
    check_rank("key_weights", "q", q, 2);
    const int64_t n = q.rows(), heads = kv_of_head.rows(), head_dim = kv.layout.head_dim;
    check(phase_ == Phase::kPrefill && n <= limits_.max_rows && heads <= limits_.heads && head_dim <= limits_.head_dim,
          "key_weights: {} rows of {} heads by {}, the limits are {}, {} and {}, in a prefill", n, heads, head_dim,
          limits_.max_rows, limits_.heads, limits_.head_dim);
    check_operand("key_weights", "q", q, DType::kF32, Shape{n, heads * head_dim});
    check_operand("key_weights", "totals", totals, DType::kF32, Shape{n, heads, 2});
    check_operand("key_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("key_weights", "slots", rows.slots, DType::kI32, Shape{n});
    check_operand("key_weights", "sequences", rows.sequences, DType::kI32, Shape{n});
    check_operand("key_weights", "sums", sums, DType::kF32, Shape{heads, sums.cols()});
    check(rows.max_slots <= sums.cols(), "key_weights: {} slots, sums have {} columns", rows.max_slots, sums.cols());
    if (n > 0) do_key_weights(sums, q, totals, kv, kv_of_head, rows);
}

void EvictionKernels::expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                                       const Tensor& kv_of_head) {
    check_kv("expected_weights", kv);
    check_places("expected_weights", kv, phase_);
    check_rank("expected_weights", "kv_of_head", kv_of_head, 1);
    check_rank("expected_weights", "weights", weights, 2);
    check_rank("expected_weights", "q", q, 2);
    const int64_t heads = kv_of_head.rows(), slots = weights.cols(), head_dim = kv.layout.head_dim;
    check(phase_ == Phase::kPrefill && heads <= limits_.heads && head_dim <= limits_.head_dim && q.rows() > 0,
          "expected_weights: {} rows of {} heads by {}, the limits are {} and {}, in a prefill", q.rows(), heads,
          head_dim, limits_.heads, limits_.head_dim);
    check_operand("expected_weights", "q", q, DType::kF32, Shape{q.rows(), heads * head_dim});
    check_operand("expected_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("expected_weights", "weights", weights, DType::kF32, Shape{heads, slots});
    check_operand("expected_weights", "norms", norms, DType::kF32, Shape{kv.layout.kv_heads, slots});
    check(!kv.angles || slots <= kv.angles.rows(), "expected_weights: {} slots, there are angles for {}", slots,
          kv.angles ? kv.angles.rows() : 0);
    if (slots > 0) do_expected_weights(weights, norms, q, kv, kv_of_head);
}

void EvictionKernels::pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                                   const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) {
    check_rank("pool_weights", "out", out, 3);
    check_rank("pool_weights", "weights", weights, 3);
    check_rank("pool_weights", "kv_of_head", kv_of_head, 1);
    const int64_t owners = out.dim(0), heads = kv_of_head.rows();
    check_operand("pool_weights", "out", out, DType::kF32, out.shape());
    check_operand("pool_weights", "weights", weights, DType::kF32, Shape{owners, heads, weights.dim(2)});
    check(out.contiguous() && weights.contiguous() && out.dim(2) <= weights.dim(2),
          "pool_weights: {} of weights {}, contiguous", out.shape(), weights.shape());
    if (tops) {
        check_operand("pool_weights", "tops", tops, DType::kF32, Shape{owners, heads, tops.dim(2)});
        check_operand("pool_weights", "totals", totals, DType::kF32, Shape{owners, heads, 2});
        check(tops.dim(2) * kTileTokens >= out.dim(2), "pool_weights: {} slots, tops of {} tiles", out.dim(2),
              tops.dim(2));
    }
    check_operand("pool_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("pool_weights", "shares", shares, DType::kF32, Shape{heads});
    if (pool.counts) {
        check_operand("pool_weights", "counts", pool.counts, DType::kI32, Shape{owners, out.dim(1)});
        check(pool.counts.contiguous(), "pool_weights: counts have a row stride of {}", pool.counts.stride());
    }
    if (out.shape().elements() > 0) do_pool_weights(out, weights, tops, totals, kv_of_head, shares, pool);
}

namespace {

void check_slots(const char* op, const SlotKv& kv, const SlotRule& rule) {
    const KvLayout& l = kv.layout;
    check_rank(op, "tiles", kv.tiles, 3);
    check_rank(op, "ranks", kv.ranks, 3);
    const Shape slots{kv.owners(), l.kv_heads, kv.slots()}, heads{kv.owners(), l.kv_heads};
    check_operand(op, "tiles", kv.tiles, DType::kI64, Shape{kv.owners(), l.kv_heads, kv.tiles.dim(2)});
    check_operand(op, "staged_k", kv.staged_k, stored_type(l.k_type), l.staged_shape(l.k_type, kv.owners()));
    check_operand(op, "staged_v", kv.staged_v, stored_type(l.v_type), l.staged_shape(l.v_type, kv.owners()));
    check_operand(op, "tokens", kv.tokens, DType::kI32, slots);
    check_operand(op, "ranks", kv.ranks, DType::kI32, slots);
    check_operand(op, "scores", kv.scores, DType::kF32, slots);
    check_operand(op, "counts", kv.counts, DType::kI32, heads);
    check_operand(op, "budgets", kv.budgets, DType::kI32, heads);
    check(rule.recent >= 1 && rule.pool % 2 == 1, "{}: {} recent tokens, the mean of {} neighbours", op, rule.recent,
          rule.pool);
}

void check_call(const char* op, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    check_operand(op, "order", order, DType::kI32, Shape{kv.layout.kv_heads, kv.slots()});
    check(call.owner >= 0 && call.owner < kv.owners() && call.cached >= 0 && call.fresh >= 0 && call.first_token >= 0,
          "{}: {} fresh entries after {}, token {} of owner {}", op, call.fresh, call.cached, call.first_token,
          call.owner);
}

void check_entries(const char* op, const SlotKv& kv, const LayerKv& entries, const Tensor& order,
                   const SlotCall& call) {
    check_kv(op, entries);
    check(entries.layout == kv.layout, "{}: entries of another layout than the slots", op);
    check_call(op, kv, order, call);
}

}  // namespace

void EvictionKernels::slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) {
    check_slots("slot_step", kv, rule);
    check(static_cast<bool>(weights) == rule.counts_all(), "slot_step: weights are {}required",
          rule.counts_all() ? "" : "not ");
    if (weights) {
        check_operand("slot_step", "weights", weights, DType::kF32,
                      Shape{kv.owners(), kv.layout.kv_heads, kv.slots() + 1});
    }
    if (kv.owners() > 0) do_slot_step(kv, weights, rule, token);
}

void EvictionKernels::slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    check_slots("slot_gather", kv, {});
    check_entries("slot_gather", kv, to, order, call);
    check_operand("slot_gather", "begins", to.begins, DType::kI32, Shape{kv.layout.kv_heads});
    do_slot_gather(to, kv, order, call);
}

void EvictionKernels::slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                                  const Tensor& weights, const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_scores", kv, rule);
    check_entries("slot_scores", kv, from, order, call);
    const Shape entries{kv.layout.kv_heads, call.entries()};
    check_operand("slot_scores", "scores", scores, DType::kF32, entries);
    const bool wanted = (rule.counts_all() && call.fresh > 0) || rule.by == ScoreBy::kWindow;
    check(static_cast<bool>(weights) == wanted, "slot_scores: weights are {}required", wanted ? "" : "not ");
    if (weights) check_operand("slot_scores", "weights", weights, DType::kF32, entries);
    if (entries.elements() > 0) do_slot_scores(scores, kv, from, order, weights, rule, call);
}

void EvictionKernels::slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                                const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_keys", kv, rule);
    check_call("slot_keys", kv, order, call);
    const Shape entries{kv.layout.kv_heads, call.entries()};
    check_operand("slot_keys", "scores", scores, DType::kF32, entries);
    check_operand("slot_keys", "keys", keys, DType::kI64, entries);
    if (entries.elements() > 0) do_slot_keys(keys, kv, order, scores, rule, call);
}

void EvictionKernels::slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                                 const Tensor& largest, const SlotShare& share, const SlotRule& rule,
                                 const SlotCall& call) {
    check_slots("slot_share", kv, rule);
    check_rank("slot_share", "tiles", tiles, 2);
    check_rank("slot_share", "keys", keys, 2);
    check_rank("slot_share", "rows", rows, 1);
    const KvLayout& l = kv.layout;
    const int64_t heads = rows.rows();
    const Shape tile{tiles.rows(), static_cast<int64_t>(l.tile_bytes()) / std::max<int64_t>(1, l.kv_heads)};
    check_operand("slot_share", "tiles", tiles, DType::kU8, tile);
    check_operand("slot_share", "keys", keys, DType::kI64, Shape{keys.rows(), call.entries()});
    check_operand("slot_share", "rows", rows, DType::kI32, Shape{heads});
    check_operand("slot_share", "largest", largest, DType::kI32, Shape{kv.owners()});
    check(rule.first_head >= 0 && rule.first_head + l.kv_heads <= heads && heads <= kMostSharing && call.owner >= 0 &&
              call.owner < kv.owners() && share.least >= 0 && share.least + rule.recent <= share.tokens - call.reserve,
          "slot_share: heads {} to {} of {} share {} tokens each less {}, at least {} and {} recent ones",
          rule.first_head, rule.first_head + l.kv_heads, heads, share.tokens, call.reserve, share.least, rule.recent);
    if (heads > 0) do_slot_share(kv, tiles, keys, rows, largest, share, rule, call);
}

void EvictionKernels::slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                                  const Tensor& keys, const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_choose", kv, rule);
    check_entries("slot_choose", kv, from, order, call);
    check_operand("slot_choose", "scores", scores, DType::kF32, Shape{kv.layout.kv_heads, call.entries()});
    check_operand("slot_choose", "keys", keys, DType::kI64, Shape{kv.layout.kv_heads, 2 * call.entries()});
    if (call.entries() > 0) do_slot_choose(kv, from, order, scores, keys, rule, call);
}

}  // namespace trireme
