/// Scores of an EvictingCache: the attention that tokens have received, summed and pooled, and the choice that follows.

#include <algorithm>
#include <complex>

#include "offload/evicting/evicting_cache.h"

namespace trireme {

/// Clears the sums of a layer's query heads for `entries` entries.
void EvictingCache::clear_sums(int64_t entries) {
    const Shape all{model_.readers.heads(), entries};
    compute_.copy(Tensor(m_.sums.data(), DType::kF32, all), Tensor(m_.zeros.data(), DType::kF32, all));
}

/// Adds the attention that these rows give to the call's entries.
void EvictingCache::count(Kernels& op, const Tensor& q, const Tensor& totals, const LayerKv& kv, const RowsView& rows) {
    const Tensor sums(m_.sums.data(), DType::kF32, {model_.readers.heads(), call_.entries()});
    op.key_weights(sums, q, totals, kv, kv_of_head_, rows);
}

/// Combines the attention that a layer's query heads gave to the call's entries with that of the owner's earlier
/// readers (pool_of).
void EvictingCache::pool_sums(Kernels& op, LayerIndex layer) {
    const int64_t n = call_.entries(), kv_heads = m_.kv.layout.kv_heads;
    const Tensor to = m_.weights_of(place_of(model_.readers[layer].owner), n);
    op.pool_weights(Tensor(to.data(), DType::kF32, {1, kv_heads, n}),
                    Tensor(m_.sums.data(), DType::kF32, {1, model_.readers.heads(), n}), {}, {}, kv_of_head_, m_.shares,
                    pool_of(shape_, model_, layer));
}

/// The owner's heads choose once a prompt's keys and values are final and every row of every reader has attended them.
void EvictingCache::evict_when_complete(Kernels& op, OwnerIndex owner) {
    const OwnerProgress& so_far = progress_[owner.at()];
    if (!so_far.written || so_far.readers_left > 0) return;
    score_and_choose(op, place_of(owner), call_of(owner), shape_.rule(), shape_.attentive());
}

/// `weighed`: the entries have received attention in this call.
void EvictingCache::score_and_choose(Kernels& op, int64_t place, const SlotCall& call, const SlotRule& rule,
                                     bool weighed) {
    const int64_t n = call.entries(), kv_heads = m_.kv.layout.kv_heads;
    const LayerKv entries = m_.entries(place);
    const Tensor order = m_.order_of(place), weights = weighed ? m_.weights_of(place, n) : Tensor();
    if (weighed && model_.exchange) model_.exchange(op, Tensor(weights.data(), DType::kF32, {1, kv_heads, n}));
    const Tensor scores(m_.entry_scores.data(), DType::kF32, {kv_heads, n});
    op.slot_scores(scores, m_.kv, entries, order, weights, rule, call);
    SlotCall chosen = call;
    chosen.retiled = shape_.shares() && (call.fresh > 0 || call.reserve > 0);
    if (chosen.retiled) share_slots(op, place, scores, rule, chosen);
    op.slot_choose(m_.kv, entries, order, scores, Tensor(m_.keys.data(), DType::kI64, {kv_heads, 2 * n}), rule, chosen);
}

/// Divides the slots among the heads of all ranks, alike on every rank, and gives this rank's heads theirs.
void EvictingCache::share_slots(Kernels& op, int64_t place, const Tensor& scores, const SlotRule& rule,
                                const SlotCall& call) {
    const int64_t n = call.entries(), kv_heads = m_.kv.layout.kv_heads;
    const auto rows = [&](int64_t first, int64_t count) {
        return Tensor(static_cast<int64_t*>(m_.all_keys.data()) + first * n, DType::kI64, {count, n});
    };
    op.slot_keys(rows(model_.first_row, kv_heads), m_.kv, m_.order_of(place), scores, rule, call);
    if (model_.gather) model_.gather(rows(0, shape_.key_rows), rows(model_.first_row, model_.own_rows));
    const int64_t tiles = m_.tiles.rows() / shape().owner_layers;
    op.slot_share(m_.kv, m_.tiles.slice_rows(call.owner * tiles, tiles), rows(0, shape_.key_rows), m_.rows, m_.largest,
                  shape_.share(), rule, call);
}

/// If heads share slots, reads the largest budget to the host. Blocks until the call is over.
void EvictingCache::read_largest() {
    if (!shape_.shares()) return;
    const HostTensor host = largest_.tensor(DType::kI32, m_.largest.shape());
    compute_.copy(host, m_.largest);
    compute_.synchronize();
    const auto* largest = static_cast<const int32_t*>(host.data());
    extra_ = *std::max_element(largest, largest + shape().owner_layers) - most_;
}

/// Uploads the rotations of the n most recent queries of a text. Each was rotated for its position then. If positions
/// roll, its token may have another position now. Where the policy expects the queries of the next tokens
/// (EvictionShape::expects), the queries are rotated to the text's end and then by the mean rotation of those tokens.
void EvictingCache::upload_turns(int64_t text, int64_t n) {
    if (turns_free_.stream != nullptr) compute_.synchronize(turns_free_);
    const HostTensor host = turns_.tensor(DType::kF32, m_.turns.shape());
    const auto dim = static_cast<size_t>(m_.kv.layout.head_dim), pairs = dim / 2;
    for (int64_t i = 0; i < n; ++i) {
        const std::span<float> turn{host.as<float>().row(i), dim};
        const int64_t there = call_.entries() - n + i;
        const int64_t moved = shape_.rolling ? there - recent_->position(text - n + i) : 0;
        model_.turn(turn, shape_.expects() ? moved + n - i : moved);
        for (size_t p = 0; p < pairs && shape_.expects(); ++p) {
            const std::complex<float> both =
                std::complex(turn[p], turn[pairs + p]) * std::complex(ahead_[p], ahead_[pairs + p]);
            turn[p] = both.real();
            turn[pairs + p] = both.imag();
        }
    }
    compute_.upload(m_.turns, host);
    turns_free_ = compute_.record();
    turns_ready_ = true;
}

/// Re-scores each retained token by the most recent queries, in the call that has begun.
void EvictingCache::rescore(Kernels& op, const SlotRule& rule) {
    const int64_t text = length(0), kept = call_.cached, n = std::min(shape_.observe, kept);
    if (shape_.rolling || shape_.expects()) upload_turns(text, n);
    for (OwnerIndex owner; owner.i < shape().owner_layers; ++owner) {
        const int64_t place = place_of(owner);
        op.slot_gather(m_.entries(place), m_.kv, m_.order_of(place), call_of(owner));
        for (const LayerIndex layer : model_.readers.of(owner)) {
            if (!counts(shape_, model_.readers, layer)) continue;
            if (shape_.expects()) {
                expect(op, layer, text, n);
            } else {
                clear_sums(kept);
                count_recent(op, layer, n);
            }
            pool_sums(op, layer);
        }
        score_and_choose(op, place, call_of(owner), rule, /*weighed=*/true);
    }
}

/// Sets the sums of the call's entries to the attention that a layer's next queries are expected to give, times the
/// norms of the values. The n most recent queries of the text, rotated by upload_turns, are the sample.
void EvictingCache::expect(Kernels& op, LayerIndex layer, int64_t text, int64_t n) {
    const RecentQueries::Parts parts = recent_->parts(layer, text - n, n);
    for (const RecentQueries::Part& part : parts.span()) {
        const int64_t rows = part.q.rows();
        op.gather_rows(m_.turned.slice_rows(part.first - (text - n), rows), part.q, m_.slots_of_rows.first_rows(rows));
    }
    const Tensor q = m_.turned.first_rows(n);
    op.rope(q, m_.turns.first_rows(n), m_.kv.layout.head_dim);
    const int64_t entries = call_.entries();
    const Tensor norms(m_.entry_scores.data(), DType::kF32, {m_.kv.layout.kv_heads, entries});
    op.expected_weights(Tensor(m_.sums.data(), DType::kF32, {model_.readers.heads(), entries}), norms, q,
                        m_.entries(place_of(model_.readers[layer].owner)), kv_of_head_);
}

/// Adds the attention that the n most recent queries of a layer give to the retained tokens of its owner.
void EvictingCache::count_recent(Kernels& op, LayerIndex layer, int64_t n) {
    const int64_t text = length(0), kept = call_.cached, dim = m_.kv.layout.head_dim;
    const LayerKv kv = m_.entries(place_of(model_.readers[layer].owner));
    const Tensor& slots = model_.readers[layer].strict ? m_.before_rows : m_.slots_of_rows;
    const RecentQueries::Parts parts = recent_->parts(layer, text - n, n);
    for (const RecentQueries::Part& part : parts.span()) {
        const int64_t first = part.first - (text - n), rows_of = part.q.rows();
        Tensor q = part.q;
        if (shape_.rolling) {
            q = m_.turned.first_rows(rows_of);
            op.gather_rows(q, part.q, m_.slots_of_rows.first_rows(rows_of));
            op.rope(q, m_.turns.slice_rows(first, rows_of), dim);
        }
        const RowsView rows = {.slots = slots.slice_rows(kept - n + first, rows_of),
                               .sequences = m_.sequences.slice_rows(0, rows_of),
                               .cached = {},
                               .ancestors = {},
                               .max_slots = kept - n + first + rows_of};
        const Tensor totals = m_.row_totals.first_rows(rows_of);
        op.attention(m_.unused.first_rows(rows_of), q, kv, kv_of_head_, rows, {}, {.totals = totals});
        count(op, q, totals, kv, rows);
    }
}

}  // namespace trireme
