#include "offload/evicting/heavy_set.h"

#include <algorithm>
#include <utility>

#include "offload/evicting/slot_layer.h"
#include "offload/upload.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

int64_t slots_of(const EvictionShape& s) {
    return tiles_for(s.budget) * kTileTokens;
}

}  // namespace

KernelLimits HeavySet::step_limits(const KvShape& kv, int64_t heads) {
    return {.max_rows = 1,
            .max_k = 0,
            .max_n = 0,
            .heads = HeavyMemory::owners_together(kv, heads) * heads,
            .head_dim = kv.layout.head_dim};
}

int64_t HeavySet::exchanged(const KvShape& kv, const EvictionShape& s) {
    return std::max(kv.owner_layers * (slots_of(s) + 1), kv.context);
}

HeavySet::HeavySet(Device& device, Stream& compute, FullCache& full, const EvictionShape& s, EvictingModel model,
                   int64_t sequence)
    : kv_(one_sequence(full.shape())),
      sequence_(sequence),
      shape_(s),
      model_(std::move(model)),
      full_(full),
      compute_(compute),
      together_(HeavyMemory::owners_together(kv_, model_.readers.heads())),
      device_(device, memory_for(kv_, s, model_.readers).device),
      stepping_(make_kernels(device, compute, Phase::kDecode, step_limits(kv_, model_.readers.heads()))),
      places_(static_cast<size_t>(model_.readers.layers()), -1),
      progress_(static_cast<size_t>(kv_.owner_layers)),
      graphs_(device.graphs()) {
    check(full.facts().by_layers && s.policy == KvPolicy::kH2o && !s.rolling,
          "heavy hitters: policy {}; want h2o with true positions, and prefills layer by layer", name_of(s.policy));
    check(model_.readers.owners() == kv_.owner_layers, "heavy hitters: {} owners of {}", model_.readers.owners(),
          kv_.owner_layers);
    put_together();
    m_.take(device_, kv_, s, model_.readers);
    m_.kv.staged_k = full.staged_k();
    m_.kv.staged_v = full.staged_v();
    upload(device);
    full_.add_observer(*this, sequence_);
}

HeavySet::~HeavySet() {
    full_.remove_observer(*this);
    compute_.drain();
}

void HeavySet::reader_leaves() noexcept {
    compute_.drain();
    read_ = {};
}

/// Puts readers into runs: the first reader of every owner, then the second one of those that have two, and so on. The
/// first one's weights overwrite what was there, and the others add to it.
void HeavySet::put_together() {
    const KvReaders& readers = model_.readers;
    int64_t place = 0;
    for (int64_t number = 0; number < readers.most(); ++number) {
        for (OwnerIndex owner; owner.i < readers.owners(); ++owner) {
            if (number >= static_cast<int64_t>(readers.of(owner).size())) continue;
            const LayerIndex layer = readers.of(owner)[index(number)];
            if (!counts(shape_, readers, layer)) continue;
            places_[layer.at()] = place;
            const Run mine = {.first = owner,
                              .owners = 1,
                              .place = place++,
                              .strict = readers[layer].strict,
                              .pool = pool_of(shape_, model_, layer)};
            const bool extends = !runs_.empty() && runs_.back().first.i + runs_.back().owners == owner.i &&
                                 runs_.back().strict == mine.strict && runs_.back().pool.more == mine.pool.more &&
                                 runs_.back().pool.share == mine.pool.share;
            if (extends) {
                ++runs_.back().owners;
            } else {
                runs_.push_back(mine);
            }
        }
    }
}

/// Uploads the constant tables, and counts of 0: no tokens are retained yet.
void HeavySet::upload(Device& device) {
    const Upload fill(device, compute_);
    const auto zero = [](int64_t, int64_t) { return 0; };
    const auto most = [&](int64_t, int64_t) { return static_cast<int32_t>(shape_.budget); };
    auto* const tiles = static_cast<char*>(m_.tiles.data());
    fill.operator()<int64_t>(m_.kv.tiles, [&](int64_t r, int64_t c) {
        return reinterpret_cast<int64_t>(tiles + (r * m_.kv.tiles.cols() + c) * m_.tiles.cols());
    });
    fill.operator()<int32_t>(m_.kv.budgets, most);
    fill.operator()<int32_t>(m_.kv.counts, zero);
    fill.operator()<float>(m_.zeros, [](int64_t, int64_t) { return 0.0F; });
    fill.operator()<float>(m_.shares, [&](int64_t r, int64_t) { return model_.shares[index(r)]; });
    fill.operator()<int32_t>(m_.kv_of_head, [&](int64_t r, int64_t) {
        const int64_t owner = r / model_.readers.heads(), head = r % model_.readers.heads();
        return static_cast<int32_t>(owner * kv_.layout.kv_heads) + model_.kv_of_head[index(head)];
    });
    fill.operator()<int32_t>(m_.numbers, [](int64_t r, int64_t) { return static_cast<int32_t>(r); });
    // A step's row follows all slots that a head may have; in heads with fewer, LayerKv::counts applies.
    fill.operator()<int32_t>(m_.slot, most);
    fill.operator()<int32_t>(m_.slot_before, [&](int64_t, int64_t) { return static_cast<int32_t>(shape_.budget - 1); });
    fill.operator()<int32_t>(m_.sequence, zero);
    fill.operator()<int32_t>(m_.ancestor, zero);
}

LayerKv HeavySet::layer(OwnerIndex owner) const {
    return slot_layer(m_.kv, owner);
}

void HeavySet::taken_over() {
    check(!behind_, "heavy hitters: tokens were kept after {} without an observer", tokens_);
    followed_ = true;
    was_read_ = false;
}

// Begins a forward of the full cache, or a prefill.
void HeavySet::begin(int64_t, int64_t tokens) {
    prefill_ = tokens != full_.length(sequence_);
    weighs_ = was_read_;
    if (!prefill_) return;
    check(full_.length(sequence_) == 0, "heavy hitters: a prompt of {} tokens, {} of them there before", tokens,
          full_.length(sequence_));
    prompt_ = tokens;
    for (OwnerIndex owner; owner.i < kv_.owner_layers; ++owner) {
        progress_[owner.at()] = {.readers_left = static_cast<int64_t>(model_.readers.of(owner).size())};
    }
    compute_.wait(read_);
}

void HeavySet::state(Archive& ar) {
    ar.section("heavy hitters");
    shape_.same_as_in(ar);
    compute_.wait(read_);
    for (int64_t* n : {&tokens_, &prompt_}) ar.value(*n);
    for (bool* b : {&followed_, &moved_, &behind_}) ar.value(*b);
    ar.same(m_.saved.size(), "whether several samples continue the prompt");
    for (const Tensor* t : m_.kept()) ar.memory(compute_, *t);
    for (const Tensor& t : m_.saved) ar.memory(compute_, t);
    ready_ = compute_.record();
}

void HeavySet::query(Kernels& op, OwnerIndex owner, LayerIndex layer, const Queries& queries, const Tensor&) {
    const auto& [q, first] = queries;
    const bool recorded = graphs_ && full_.recordable(owner);
    const int64_t place = places_[layer.at()];
    if (prefill_ || place < 0 || (!weighs_ && !recorded)) return;
    // A graph recorded for a number of rows is replayed wherever the rows are staged.
    check(first == 0 || !recorded, "heavy hitters: rows of a graph from {} on", first);
    const Tensor to = m_.queries.slice_rows(first, q.rows()).slice_cols(place * q.cols(), q.cols());
    op.gather_rows(to, q, m_.numbers.first_rows(q.rows()));
}

void HeavySet::attended(Kernels& op, OwnerIndex owner, const LayerKv& kv, const AttentionCall& a) {
    const int64_t rows = a.q.rows(), heads = model_.readers.heads(), kv_heads = kv_.layout.kv_heads, n = prompt_;
    const bool last = a.rows.max_slots == n;
    if (counts(shape_, model_.readers, a.layer)) {
        const Tensor sums(m_.sums.data(), DType::kF32, {heads, n});
        if (a.rows.max_slots == rows) compute_.copy(sums, Tensor(m_.zeros.data(), DType::kF32, sums.shape()));
        op.key_weights(sums, a.q, totals(rows), kv, a.kv_of_head, a.rows);
        if (last) {
            const Tensor to = m_.weights_of(model_.readers.place(owner), n);
            op.pool_weights(Tensor(to.data(), DType::kF32, {1, kv_heads, n}),
                            Tensor(sums.data(), DType::kF32, {1, heads, n}), {}, {}, a.kv_of_head, m_.shares,
                            pool_of(shape_, model_, a.layer));
        }
    }
    if (!last) return;
    --progress_[owner.at()].readers_left;
    evict_when_complete(op, owner, kv);
}

// An owner whose readers are all lower layers is written after they have read it.
void HeavySet::wrote(Kernels& op, OwnerIndex owner, int64_t, const LayerKv& kv, int64_t first, int64_t n) {
    if (!prefill_ || first + n < prompt_) return;
    progress_[owner.at()].written = true;
    evict_when_complete(op, owner, kv);
}

/// The owner's heads choose once all of a prompt is in these tiles and all of its readers have attended it.
void HeavySet::evict_when_complete(Kernels& op, OwnerIndex owner, const LayerKv& all) {
    const LayerKv kv = of_sequence(all, sequence_);
    const OwnerProgress& so_far = progress_[owner.at()];
    if (!so_far.written || so_far.readers_left > 0) return;
    const int64_t kv_heads = kv_.layout.kv_heads, n = prompt_;
    const Tensor weights = m_.weights_of(model_.readers.place(owner), n);
    if (model_.exchange) model_.exchange(op, Tensor(weights.data(), DType::kF32, {1, kv_heads, n}));
    const SlotCall call = {.owner = owner.i, .cached = 0, .fresh = n, .first_token = 0};
    const Tensor scores(m_.scores.data(), DType::kF32, {kv_heads, n});
    op.slot_scores(scores, m_.kv, kv, m_.order, weights, shape_.rule(), call);
    op.slot_choose(m_.kv, kv, m_.order, scores, Tensor(m_.keys.data(), DType::kI64, {kv_heads, 2 * n}), shape_.rule(),
                   call);
}

void HeavySet::prefilled(int64_t) {
    for (const OwnerProgress& p : progress_) {
        check(p.written && p.readers_left == 0, "heavy hitters: a prompt ends, {} layers have not read an owner",
              p.readers_left);
    }
    tokens_ = prompt_;
    prefill_ = followed_ = moved_ = behind_ = false;
    save(compute_, m_.saved, m_.kept(), "save_heavy");
    ready_ = compute_.record();
}

void HeavySet::kept(Kernels& op, int64_t, int64_t first, std::span<const int32_t> rows) {
    behind_ = behind_ || !followed_;
    if (behind_) return;
    check(first == tokens_, "heavy hitters: {} tokens are kept after {}, here are {}", rows.size(), first, tokens_);
    compute_.wait(read_);
    for (const int32_t row : rows) step(op, row, tokens_++);
    moved_ = true;
    ready_ = compute_.record();
}

/// A staged row becomes the sequence's token `token`. Unless weighs_, all attention weights of this step are 0.
void HeavySet::step(Kernels& op, int32_t row, int64_t token) {
    // The staged rows from this one on, so that it is the first one.
    const auto from_row = [&](const Tensor& staged) {
        char* first =
            static_cast<char*>(staged.data()) + static_cast<size_t>(row * staged.dim(3)) * size_of(staged.dtype());
        return Tensor(first, staged.dtype(), staged.shape());
    };
    SlotKv kv = m_.kv;
    kv.staged_k = from_row(kv.staged_k);
    kv.staged_v = from_row(kv.staged_v);
    if (weighs_) {
        weigh(op, kv, row);
    } else {
        compute_.copy(m_.pooled, Tensor(m_.zeros.data(), DType::kF32, m_.pooled.shape()));
    }
    op.slot_step(kv, m_.pooled, shape_.rule(), token);
}

/// Sets m_.pooled to the attention that the row's queries, which are stored here, give to the slots of `kv` and to the
/// row, its first staged one.
void HeavySet::weigh(Kernels& op, const SlotKv& kv, int32_t row) {
    const int64_t heads = model_.readers.heads(), dim = kv_.layout.head_dim;
    const Tensor queries = m_.queries.slice_rows(row, 1);
    for (const Run& run : runs_) {
        const RowsView rows = {.slots = run.strict ? m_.slot_before : m_.slot,
                               .sequences = m_.sequence,
                               .cached = m_.slot,
                               .ancestors = m_.ancestor,
                               .max_slots = shape_.budget + 1,
                               .staged = 1};
        for (int64_t done = 0; done < run.owners; done += together_) {
            const int64_t some = std::min(together_, run.owners - done), n = some * heads;
            const OwnerIndex first(run.first.i + done);
            const Tensor totals = m_.totals.slice_rows(first.i * heads, n);
            stepping_->attention(m_.out.slice_cols(0, n * dim),
                                 queries.slice_cols((run.place + done) * heads * dim, n * dim),
                                 slot_layer(kv, first, some), m_.kv_of_head.first_rows(n), rows, {},
                                 {.totals = Tensor(totals.data(), DType::kF32, {1, n, 2}),
                                  .weights = m_.weights.slice_rows(first.i * heads, n),
                                  .tops = m_.tops.slice_rows(first.i * heads, n)});
        }
        const auto by_owner = [&](const Tensor& t) {
            const Tensor part = t.slice_rows(run.first.i * heads, run.owners * heads);
            return Tensor(part.data(), part.dtype(), {run.owners, heads, part.cols()});
        };
        WeightPool pool = run.pool;
        if (run.strict) pool.counts = m_.kv.counts.slice_rows(run.first.i, run.owners);
        op.pool_weights(m_.pooled.slice_rows(run.first.i, run.owners), by_owner(m_.weights), by_owner(m_.tops),
                        by_owner(m_.totals), m_.kv_of_head.first_rows(heads), m_.shares, pool);
    }
    if (model_.exchange) model_.exchange(op, m_.pooled);
}

// Both sets work on the stream of their cache.
void HeavySet::forked(const KvObserver& from) {
    const auto& other = static_cast<const HeavySet&>(from);
    check(!other.moved_ && !other.behind_, "heavy hitters: a sequence forks after tokens that follow its prompt");
    compute_.wait(read_);
    const std::vector<const Tensor*> mine = m_.kept(), theirs = other.m_.kept();
    for (size_t i = 0; i < mine.size(); ++i) compute_.copy(*mine[i], *theirs[i], "fork_heavy");
    save(compute_, m_.saved, mine, "save_heavy");
    tokens_ = prompt_ = other.prompt_;
    prefill_ = followed_ = moved_ = behind_ = false;
    ready_ = compute_.record();
}

// Truncates to 0, to the prompt, or to the present length.
void HeavySet::truncated(int64_t, int64_t n) {
    prefill_ = false;
    if (n == 0 || n == prompt_) followed_ = false;
    if (n == 0) {
        compute_.wait(read_);
        compute_.copy(m_.kv.counts, Tensor(m_.zeros.data(), DType::kI32, m_.kv.counts.shape()));
        tokens_ = prompt_ = 0;
        moved_ = behind_ = false;
        return;
    }
    if (n == tokens_ && !behind_) return;
    check(n == prompt_ && (!moved_ || !m_.saved.empty()), "heavy hitters: {} tokens truncated to {} of {}", tokens_, n,
          prompt_);
    if (moved_) {
        compute_.wait(read_);
        restore(compute_, m_.saved, m_.kept(), "restore_heavy");
        ready_ = compute_.record();
    }
    tokens_ = prompt_;
    moved_ = behind_ = false;
}

}  // namespace trireme
