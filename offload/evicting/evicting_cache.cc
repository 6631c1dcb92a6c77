#include "offload/evicting/evicting_cache.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "offload/evicting/slot_layer.h"
#include "offload/upload.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// The mean of the rotations by 0 to 511 positions, as kvpress has it: the queries of the next 512 tokens.
std::vector<float> mean_turn(const EvictingModel& model, int64_t head_dim) {
    constexpr int64_t kAhead = 512;
    std::vector<float> one(static_cast<size_t>(head_dim)), mean(one.size());
    for (int64_t position = 0; position < kAhead; ++position) {
        model.turn(one, position);
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<float>(kAhead);
    }
    return mean;
}

}  // namespace

KernelLimits EvictingCache::renewing_limits(const KvShape& kv, const EvictionShape& s, int64_t heads) {
    return {.max_rows = s.observe, .max_k = 0, .max_n = 0, .heads = heads, .head_dim = kv.layout.head_dim};
}

MemoryBytes EvictingCache::memory_for(const KvShape& kv, const EvictionShape& s, const KvReaders& readers) {
    MemoryBytes each = {.device = EvictingMemory::bytes(kv, s)};
    if (s.shares()) {  // the largest budgets, and the table of tiles for state()
        each.host += static_cast<size_t>(kv.owner_layers) * sizeof(int32_t) + EvictingMemory::table_bytes(kv, s);
    }
    if (s.observing()) {
        each.device += RecentQueries::memory(readers.layers(), readers.heads() * kv.layout.head_dim, s.observe);
        each.host += static_cast<size_t>(s.observe * kv.layout.head_dim) * sizeof(float);
    }
    return kv.sequences * each + MemoryBytes{.device = EvictingScratch::scratch_bytes(kv, s, readers)};
}

/// `lent`: the scratch is another cache's.
CacheFacts EvictingCache::facts_of(const KvShape& kv, const EvictionShape& s, const KvReaders& readers, bool lent) {
    const int64_t of_head = s.most_of_head(kv.owner_layers), asked = s.chunk > 0 ? s.chunk : s.prompt;
    const MemoryBytes all = memory_for(kv, s, readers);
    return {.most_slots = of_head + kMaxRows,
            .positions = s.rolling ? std::max(EvictingMemory::entries(kv, s), of_head + 1) : kv.context,
            .most_prefill = asked == 0 ? kv.context : std::min(asked, kv.context),
            .visible = s.budget,
            .by_layers = true,
            .sums_attention = s.attentive(),
            .rotates = s.rolling,
            .rope_text = of_head + 1,
            .memory = lent ? all - MemoryBytes{.device = EvictingScratch::scratch_bytes(kv, s, readers)} : all};
}

int64_t EvictingCache::exchanged(const KvShape& kv, const EvictionShape& s) {
    const int64_t slots = EvictingMemory::slots(kv, s), entries = EvictingMemory::entries(kv, s);
    return std::max(s.rule().counts_all() ? kv.owner_layers * (slots + 1) : 0, entries);
}

EvictingCache::EvictingCache(Device& device, Stream& compute, const KvShape& kv, const EvictionShape& s,
                             EvictingModel model, const EvictingCache* first)
    : KvCache(kv, facts_of(kv, s, model.readers, first != nullptr)),
      shape_(s),
      model_(std::move(model)),
      most_(s.most_tokens(kv.owner_layers)),
      least_(s.budget_of(OwnerIndex(kv.owner_layers - 1), kv.owner_layers)),
      of_head_(s.most_of_head(kv.owner_layers)),
      compute_(compute),
      device_(device, EvictingMemory::bytes(kv, s) +
                          (first == nullptr ? EvictingScratch::scratch_bytes(kv, s, model_.readers) : 0)),
      progress_(static_cast<size_t>(kv.owner_layers)),
      in_places_(static_cast<size_t>(model_.readers.places())) {
    const KvReaders& readers = model_.readers;
    check(kv.sequences == 1 && readers.owners() == kv.owner_layers,
          "evicting cache: {} sequences, want 1; {} owners of {}", kv.sequences, readers.owners(), kv.owner_layers);
    m_.take(device_, kv, s);
    facts_.retained = &m_.kv;
    if (first == nullptr) {
        m_.take_scratch(device_, kv, s, readers);
    } else {
        static_cast<EvictingScratch&>(m_) = first->m_;
    }
    upload(device);
    if (s.shares()) {
        largest_ = Buffer<Space::kHost>(device, m_.largest.bytes());
        addresses_ = Buffer<Space::kHost>(device, m_.kv.tiles.bytes());
    }
    if (!s.observing()) return;
    recent_ = std::make_unique<RecentQueries>(device, compute, readers.layers(), readers.heads() * kv.layout.head_dim,
                                              s.observe);
    renewing_ = make_kernels(device, compute, Phase::kPrefill, renewing_limits(kv, s, readers.heads()));
    turns_ = Buffer<Space::kHost>(device, static_cast<size_t>(s.observe * kv.layout.head_dim) * sizeof(float));
    if (s.expects()) ahead_ = mean_turn(model_, kv.layout.head_dim);
}

/// Uploads the constant tables, and counts of 0: no tokens are retained yet.
void EvictingCache::upload(Device& device) {
    const Upload fill(device, compute_);
    const auto address = [](const Tensor& tiles, int64_t tile) {
        return reinterpret_cast<int64_t>(static_cast<char*>(tiles.data()) + tile * tiles.cols());
    };
    const int64_t owners = shape().owner_layers, of_owner = m_.tiles.rows() / owners, most = m_.kv.tiles.dim(2);
    // Each head begins with the same number of its owner's tiles. If heads share tiles, some are left.
    const int64_t of_head = tiles_for(shape_.shares() ? shape_.budget : of_head_);
    const auto tile = [&](int64_t owner, int64_t i) {
        const int64_t head = i / most, t = i % most;
        return t < of_head ? address(m_.tiles, owner * of_owner + head * of_head + t) : int64_t{0};
    };
    fill.operator()<int64_t>(m_.kv.tiles, tile);
    fill.operator()<int64_t>(m_.equal_tiles, tile);
    fill.operator()<int32_t>(m_.rows, [&](int64_t r, int64_t) { return model_.rows[index(r)]; });
    fill.operator()<int64_t>(
        m_.entry_table, [&](int64_t r, int64_t c) { return address(m_.entry_tiles, r * m_.entry_table.cols() + c); });
    const auto budget = [&](int64_t r, int64_t) {
        return static_cast<int32_t>(shape_.budget_of(OwnerIndex(r), owners));
    };
    fill.operator()<int32_t>(m_.kv.budgets, budget);
    fill.operator()<int32_t>(m_.equal_budgets, budget);
    fill.operator()<int32_t>(m_.kv.counts, [](int64_t, int64_t) { return 0; });
    fill.operator()<int32_t>(m_.begins, [](int64_t, int64_t) { return 0; });
    fill.operator()<float>(m_.zeros, [](int64_t, int64_t) { return 0.0F; });
    fill.operator()<float>(m_.shares, [&](int64_t r, int64_t) { return model_.shares[index(r)]; });
    fill.operator()<int32_t>(m_.slots_of_rows, [](int64_t r, int64_t) { return static_cast<int32_t>(r); });
    fill.operator()<int32_t>(m_.before_rows, [](int64_t r, int64_t) { return static_cast<int32_t>(r - 1); });
    fill.operator()<int32_t>(m_.sequences, [](int64_t, int64_t) { return 0; });
    fill.rows<float>(m_.angles, [&](Matrix<float> m, int64_t first) {
        for (int64_t r = 0; r < m.rows; ++r)
            model_.angles({m.row(r), static_cast<size_t>(m.cols)}, first + r, of_head_ + 1);
    });
}

LayerKv EvictingCache::layer(OwnerIndex owner) const {
    LayerKv kv = slot_layer(m_.kv, owner);
    kv.angles = m_.angles;
    return kv;
}

SlotCall EvictingCache::call_of(OwnerIndex owner) const {
    SlotCall call = call_;
    call.owner = owner.i;
    return call;
}

void EvictingCache::begin(std::span<const RowGroup> groups, std::span<const OwnerIndex>) {
    check(groups.size() == 1 && groups[0].rows == 1 && staged().size() == 1,
          "evicting cache: a step of {} rows, of which tokens leave one by one; want 1", staged().size());
}

void EvictingCache::write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                          const Tensor& change) {
    if (!prefill_) return op.kv_stage(layer(owner), k, v, rows);
    const int64_t place = place_of(owner);
    OwnerIndex& there = in_places_[index(place)];
    if (there != owner) {  // the first rows
        op.slot_gather(m_.entries(place), m_.kv, m_.order_of(place), call_of(owner));
        there = owner;
    }
    op.kv_append(m_.entries(place), k, v, rows, change);
    if (provisional() || rows.max_slots < call_.entries()) return;
    progress_[owner.at()].written = true;
    evict_when_complete(op, owner);
}

void EvictingCache::attend(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    kv_of_head_ = a.kv_of_head;
    if (prefill_) return attend_prompt(op, owner, a);
    AttentionReport report;
    if (m_.weights && counts(shape_, model_.readers, a.layer)) {
        const auto of = [&](const Tensor& t) { return Tensor(t.data(), DType::kF32, {t.dim(1), t.dim(2)}); };
        report = {.totals = m_.totals, .weights = of(m_.weights), .tops = of(m_.tops)};
    }
    op.attention(a.out, a.q, layer(owner), a.kv_of_head, a.rows, {}, report);
    // The weights are pooled at once, while they are in the processor's cache: those of all owners do not fit there.
    if (report) {
        WeightPool pool = pool_of(shape_, model_, a.layer);
        if (model_.readers[a.layer].strict) pool.counts = m_.kv.counts.slice_rows(owner.i, 1);
        op.pool_weights(m_.pooled.slice_rows(owner.i, 1), m_.weights, m_.tops, m_.totals, a.kv_of_head, m_.shares,
                        pool);
    }
    if (recent_) recent_->stage(op, a.layer, a.q);
}

void EvictingCache::attend_prompt(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    const LayerKv kv = m_.entries(place_of(owner));
    if (provisional()) return op.attention(a.out, a.q, kv, a.kv_of_head, a.rows);
    const int64_t n = a.q.rows(), left = call_.entries() - a.rows.max_slots;  // rows after these
    const int64_t before = call_.fresh - left - n;                            // rows of the call before these
    const bool weighed = counts(shape_, model_.readers, a.layer), sums = weighed && !shape_.expects();
    const Tensor totals = sums ? m_.row_totals.first_rows(n) : Tensor();
    op.attention(a.out, a.q, kv, a.kv_of_head, a.rows, {}, {.totals = totals});
    if (sums && before == 0) clear_sums(call_.entries());
    const int64_t counted = sums ? std::min(n, shape_.counted(call_.fresh) - left) : 0;
    if (counted > 0) {
        RowsView rows = a.rows;
        rows.slots = rows.slots.slice_rows(n - counted, counted);
        rows.sequences = rows.sequences.slice_rows(n - counted, counted);
        count(op, a.q.slice_rows(n - counted, counted), totals.slice_rows(n - counted, counted), kv, rows);
    }
    if (recent_) recent_->take(op, a.layer, a.q, call_.first_token + before, call_.cached + before);
    if (left > 0) return;
    if (weighed && shape_.expects()) {
        const int64_t text = call_.first_token + call_.fresh, observed = std::min(shape_.observe, text);
        if (!turns_ready_) upload_turns(text, observed);
        expect(op, a.layer, text, observed);
    }
    if (weighed) pool_sums(op, a.layer);
    --progress_[owner.at()].readers_left;
    evict_when_complete(op, owner);
}

void EvictingCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    check(rows.empty() || (rows.size() == 1 && rows[0] == 0), "evicting cache: rows {} are kept, want row 0 alone",
          fmt::join(rows, " "));
    const int64_t token = length(sequence), position = cached(sequence);
    if (rows.empty()) return commit(sequence, token);
    check(token < shape().context, "evicting cache: one row kept after {} of {} tokens", token, shape().context);
    if (m_.pooled && model_.exchange) model_.exchange(op, m_.pooled);
    op.slot_step(m_.kv, m_.pooled, shape_.rule(), token);
    commit(sequence, token + 1);
    kept_ = std::min(kept_ + 1, most_);
    ++steps_;
    if (!recent_) return;
    recent_->keep(token, position);
    if (steps_ % shape_.every != 0) return;
    call_ = {.owner = 0, .cached = cached(0), .fresh = 0, .first_token = length(0)};
    rescore(*renewing_, shape_.rule());
}

bool EvictingCache::reserve(Kernels& op, int64_t sequence, int64_t tokens) {
    // If even the smallest budget has room, nothing is evicted.
    if (std::min(kept_, least_) + tokens <= least_) return true;
    if (tokens >= shape_.recent()) return kept_ == 0;
    call_ = {.owner = 0, .cached = cached(sequence), .fresh = 0, .first_token = length(sequence), .reserve = tokens};
    SlotRule rule = shape_.rule();
    rule.recent -= static_cast<int32_t>(tokens);
    if (recent_) {
        rescore(*renewing_, rule);
    } else {
        for (OwnerIndex owner; owner.i < shape().owner_layers; ++owner) {
            op.slot_gather(m_.entries(0), m_.kv, m_.order_of(0), call_of(owner));
            score_and_choose(op, 0, call_of(owner), rule, /*weighed=*/false);
        }
    }
    kept_ = std::min(kept_, most_ - tokens);
    read_largest();
    return true;
}

void EvictingCache::truncate(int64_t sequence, int64_t n) {
    check(can_truncate(sequence, n),
          "evicting cache: cannot truncate {} tokens to {}: those that were dropped are gone", length(sequence), n);
    prefill_ = false;
    if (n == 0) {
        const SlotKv& kv = m_.kv;
        compute_.copy(kv.counts, Tensor(m_.zeros.data(), DType::kI32, kv.counts.shape()));
        if (shape_.shares()) {
            compute_.copy(kv.budgets, m_.equal_budgets);
            compute_.copy(kv.tiles, m_.equal_tiles);
        }
        saved_tokens_ = -1;
        kept_ = extra_ = 0;
    } else if (n < length(sequence)) {
        restore(compute_, m_.saved, m_.kept(), "restore_slots");
        if (recent_) recent_->restore();
        kept_ = saved_kept_;
        extra_ = saved_extra_;
        steps_ = 0;
    }
    commit(sequence, n);
}

void EvictingCache::state(Archive& ar) {
    ar.section("bounded view");
    shape_.same_as_in(ar);
    KvCache::state(ar);
    for (int64_t* n : {&kept_, &extra_, &saved_tokens_, &saved_kept_, &saved_extra_, &steps_}) ar.value(*n);
    ar.value(call_);
    ar.same(m_.saved.size(), "whether several samples continue the prompt");
    const std::vector<const Tensor*> kept = m_.kept();
    const auto tell = [&](const Tensor& t, const Tensor* original) {
        if (original != &m_.kv.tiles) return ar.memory(compute_, t);
        if (shape_.shares()) addresses(ar, t);  // else they never change
    };
    for (const Tensor* t : kept) tell(*t, t);
    for (size_t i = 0; i < m_.saved.size(); ++i) tell(m_.saved[i], kept[i]);
    if (recent_) recent_->state(ar);
}

void EvictingCache::fork_from(const EvictingCache& from) {
    const std::vector<const Tensor*> mine = m_.kept(), theirs = from.m_.kept();
    for (size_t i = 0; i < mine.size(); ++i) {
        if (mine[i] != &m_.kv.tiles) compute_.copy(*mine[i], *theirs[i], "fork_slots");
    }
    if (shape_.shares()) {  // else each head has the same tiles of its cache
        const HostTensor host = addresses_.tensor(DType::kI64, m_.kv.tiles.shape());
        const auto between =
            reinterpret_cast<int64_t>(m_.tiles.data()) - reinterpret_cast<int64_t>(from.m_.tiles.data());
        compute_.copy(host, from.m_.kv.tiles);
        compute_.synchronize();
        auto* const at = static_cast<int64_t*>(host.data());
        for (size_t i = 0; i < m_.kv.tiles.bytes() / sizeof(int64_t); ++i) at[i] += at[i] == 0 ? 0 : between;
        compute_.copy(m_.kv.tiles, host);
        compute_.synchronize();
    }
    if (recent_) recent_->copy_from(*from.recent_);
    kept_ = from.kept_;
    extra_ = from.extra_;
    steps_ = from.steps_;
    call_ = from.call_;
    commit(0, from.length(0));
    save_prompt();
}

/// Serialises a table of tile addresses, i64 of any shape, as 1 + offset in m_.tiles: addresses differ by run. 0: none.
void EvictingCache::addresses(Archive& ar, const Tensor& table) {
    const HostTensor host = addresses_.tensor(DType::kI64, table.shape());
    auto* const at = static_cast<int64_t*>(host.data());
    std::vector<int64_t> places(table.bytes() / sizeof(int64_t));
    const int64_t base = reinterpret_cast<int64_t>(m_.tiles.data()) - 1;
    compute_.copy(host, table);
    compute_.synchronize();
    for (size_t i = 0; i < places.size(); ++i) places[i] = at[i] == 0 ? 0 : at[i] - base;
    const size_t all = places.size();
    ar.values(places);
    if (!ar.loads()) return;
    const auto bytes = static_cast<int64_t>(m_.tiles.bytes());
    require(places.size() == all && std::ranges::all_of(places, [&](int64_t p) { return p >= 0 && p <= bytes; }),
            Exit::kData, "tiles that are not there");
    for (size_t i = 0; i < all; ++i) at[i] = places[i] == 0 ? 0 : places[i] + base;
    compute_.copy(table, host);
    compute_.synchronize();
}

void EvictingCache::begin_prefill(int64_t sequence, int64_t n) {
    const int64_t entries = cached(sequence) + n;
    check(entries <= m_.entry_scores.cols() && length(sequence) + n <= shape().context,
          "evicting cache: a prefill of {} tokens after {} of {}, {} entries of {}", n, length(sequence),
          shape().context, entries, m_.entry_scores.cols());
    call_ = {.owner = 0, .cached = cached(sequence), .fresh = n, .first_token = length(sequence)};
    for (OwnerIndex owner; owner.i < shape().owner_layers; ++owner) {
        progress_[owner.at()] = {.readers_left = static_cast<int64_t>(model_.readers.of(owner).size())};
    }
    std::ranges::fill(in_places_, OwnerIndex(-1));
    prefill_ = true;
    turns_ready_ = false;
}

void EvictingCache::end() {
    if (!prefill_) return;
    for (const OwnerProgress& p : progress_) {
        check(p.written && p.readers_left == 0, "evicting cache: a prefill ends, {} layers have not read an owner",
              p.readers_left);
    }
    prefill_ = false;
    steps_ = 0;
    commit(0, call_.first_token + call_.fresh);
    kept_ = std::min(kept_ + call_.fresh, most_);
    read_largest();
    save_prompt();
}

/// Saves the state after a prompt, if a sequence may be truncated to it.
void EvictingCache::save_prompt() {
    if (!shape_.returns) return;
    save(compute_, m_.saved, m_.kept(), "save_slots");
    if (recent_) recent_->save();
    saved_tokens_ = length(0);
    saved_kept_ = kept_;
    saved_extra_ = extra_;
}

}  // namespace trireme
