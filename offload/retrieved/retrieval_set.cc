#include "offload/retrieved/retrieval_set.h"

#include <algorithm>
#include <utility>

#include "offload/stream/table_writer.h"
#include "runtime/error.h"

namespace trireme {
namespace {

const Shape kPick{kChunkPickWords};

/// Checks the shape before anything is divided by its chunk.
const RetrievalShape& checked(const RetrievalShape& shape) {
    check(shape.chunk >= 1 && kTileTokens % shape.chunk == 0 && shape.budget >= shape.chunk,
          "retrieval: {} tokens in chunks of {}; want chunks that divide {}", shape.budget, shape.chunk, kTileTokens);
    return shape;
}

}  // namespace

/// The memory that this object allocates itself.
MemoryBytes RetrievalSet::own_memory() const {
    RetrievalShape alone = shape_;
    alone.queries = 1;
    return alone.memory(kv_) - KeptLists::memory();
}

RetrievalSet::RetrievalSet(Device& device, Stream& compute, FullCache& full, const RetrievalShape& shape,
                           int64_t sequence)
    : shape_(checked(shape)),
      kv_(one_sequence(full.shape())),
      sequence_(sequence),
      full_(full),
      compute_(compute),
      most_slots_(shape.slots(kv_.context)),
      device_(device, own_memory().device),
      host_(device, own_memory().host),
      kept_(device, compute),
      graphs_(device.graphs()),
      chosen_(static_cast<size_t>(kv_.owner_layers)),
      seen_(static_cast<size_t>(kv_.owner_layers)) {
    tiles_ = device_.take(DType::kU8, shape.all_tiles(kv_));
    TableWriter tables(device, compute_, shape.table(kv_));
    auto* next = static_cast<char*>(tiles_.data());
    for (OwnerIndex owner; owner.i < kv_.owner_layers; ++owner) {
        const LayerKv& theirs = full.layer(owner);
        layers_.push_back({.layout = kv_.layout,
                           .tiles = device_.take(DType::kI64, shape.table(kv_)),
                           .staged_k = theirs.staged_k,
                           .staged_v = theirs.staged_v});
        tables.write(layers_.back().tiles,
                     [&](int64_t, int64_t) { return std::exchange(next, next + kv_.layout.tile_bytes()); });
        means_.push_back(device_.take(mean_type(kv_.layout.k_type), shape.means(kv_)));
    }
    places_ = device_.take(DType::kI32, shape.by_chunk(kv_));
    keys_ = device_.take(DType::kI64, shape.by_chunk(kv_));
    pick_ = device_.take(DType::kI32, kPick);
    for (Sent& s : sent_) s.host = host_.take(DType::kI32, kPick);
    if (shape.queries > 1) {
        history_ =
            std::make_unique<QueryHistory>(device, compute_, kv_.owner_layers, shape.queries - 1, shape.query_columns);
    }
    if (shape.recorded) choice_.places = host_.take(DType::kI32, shape.selections(kv_));
    if (shape.comes_back) prompt_tiles_ = host_.take(DType::kU8, shape.all_tiles(kv_));
    full_.add_observer(*this, sequence_);
}

RetrievalSet::~RetrievalSet() {
    full_.remove_observer(*this);
    compute_.drain();
}

void RetrievalSet::reader_leaves() noexcept {
    compute_.drain();
    read_ = {};
}

// Serialises only the tiles and means in use: another run's context may have other numbers of them.
void RetrievalSet::state(Archive& ar) {
    ar.section("retrieved");
    const std::array<int64_t, 4> shape = {shape_.budget, shape_.chunk, shape_.queries, kv_.owner_layers};
    ar.same(shape, "the budget, chunk size or number of queries of the retrieval");
    compute_.wait(read_);
    for (int64_t* n : {&tokens_, &since_}) ar.value(*n);
    for (ChunkPick* pick : {&pick_here_, &pick_prompt_}) ar.value(*pick);
    for (bool* b : {&reading_prompt_, &choosing_, &chooses_, &moved_}) ar.value(*b);
    const int64_t in_prompt = pick_prompt_.slots(shape_.chunk);
    for (const int64_t n : {slots(), in_prompt}) {
        require(n >= 0 && n <= most_slots_, Exit::kData, "what was retrieved has {} slots, here is room for {}", n,
                most_slots_);
    }
    require(tokens_ >= 0 && tokens_ <= kv_.context, Exit::kData,
            "tokens were retrieved from a text of {}, here is room for {}", tokens_, kv_.context);
    tiles_state(ar, tiles_, slots());
    const int64_t all = shape_.chunks(kv_), used = tiles_for(tokens_) * (kTileTokens / shape_.chunk);
    for (const Tensor& means : means_) {
        const Tensor by_chunk(means.data(), means.dtype(), {kv_.layout.kv_heads * all, kv_.layout.head_dim});
        for (int64_t head = 0; used > 0 && head < kv_.layout.kv_heads; ++head) {
            ar.memory(compute_, by_chunk.slice_rows(head * all, used));
        }
    }
    if (history_) history_->state(ar);
    // The prompt's selection, for a sequence that may be truncated to it; otherwise the tiles hold it.
    bool comes_back = static_cast<bool>(prompt_tiles_);
    const bool mine = comes_back;
    ar.value(comes_back);
    require(!mine || comes_back || !moved_, Exit::kData,
            "the prompt's selection was not saved: only one sample can continue");
    if (mine && comes_back) tiles_state(ar, prompt_tiles_, in_prompt);
    if (mine && !comes_back) compute_.copy(prompt_tiles_, tiles_, "keep_retrieved");
    ready_ = compute_.record();
}

/// Serialises the tiles of each owner that `slots` slots fill.
template <class T>
void RetrievalSet::tiles_state(Archive& ar, const T& tiles, int64_t slots) {
    const auto bytes = static_cast<int64_t>(kv_.layout.tile_bytes());
    const int64_t each = shape_.tiles(kv_.context) * bytes, used = tiles_for(slots) * bytes;
    for (int64_t owner = 0; used > 0 && owner < kv_.owner_layers; ++owner) {
        ar.memory(compute_, tiles.slice_rows(owner * each, used));
    }
}

int64_t RetrievalSet::slots_of(int64_t tokens) const {
    ChunkPick here = pick_here_;
    here.tokens = static_cast<int32_t>(tokens);
    return here.slots(shape_.chunk);
}

void RetrievalSet::send(const ChunkPick& pick) {
    Sent& s = sent_[next_sent_];
    next_sent_ = (next_sent_ + 1) % sent_.size();
    if (s.free.stream != nullptr) compute_.synchronize(s.free);  // recorded eight forwards ago
    *static_cast<ChunkPick*>(s.host.data()) = pick;
    compute_.upload(pick_, s.host);
    s.free = compute_.record();
}

// Begins a forward of the full cache. Recorded graphs always select and gather: nothing, if `pick` has no tokens.
void RetrievalSet::begin(int64_t, int64_t tokens) {
    reading_prompt_ = tokens != tokens_;
    const bool due = shape_.every != RetrievalShape::kNever && chooses_ && ++since_ >= shape_.every;
    const int64_t may_come = std::min(kMaxRows, kv_.context - tokens);
    choosing_ = reading_prompt_ || due || slots() + may_come > most_slots_;
    const ChunkPick chosen = choosing_ ? shape_.pick(tokens) : ChunkPick();
    std::fill(chosen_.begin(), chosen_.end(), false);
    std::fill(seen_.begin(), seen_.end(), false);
    compute_.wait(read_);
    send(chosen);
    if (!choosing_) return;
    pick_here_ = chosen;
    ++choice_.number;
    choice_.pick = chosen;
    since_ = 0;
    moved_ = !reading_prompt_;
    tokens_ = tokens;
}

// The work for owners on chip may be recorded, and the graph then also serves forwards that select.
bool RetrievalSet::passes_by(OwnerIndex owner) const {
    return chosen_[owner.at()] || (!choosing_ && !(graphs_ && full_.recordable(owner)));
}

// A prompt's last query selects alone.
void RetrievalSet::query(Kernels& op, OwnerIndex owner, LayerIndex, const Queries& queries, const Tensor& kv_of_head) {
    const auto& [q, first] = queries;
    const bool several = history_ && !reading_prompt_;
    if (several && !seen_[owner.at()]) {
        // A graph recorded for a number of rows is replayed wherever the rows are staged.
        check(first == 0 || !(graphs_ && full_.recordable(owner)), "retrieval: rows of a graph from {} on", first);
        history_->observe(op, owner, q, first);
    }
    seen_[owner.at()] = true;
    if (passes_by(owner)) return;
    op.choose_chunks(places_, keys_, means_[owner.at()], several ? history_->sum(op, owner, q) : q.first_rows(1),
                     kv_of_head, pick_);
    if (!choice_.places) return;
    const Shape& mine = places_.shape();
    auto* const to = static_cast<int32_t*>(choice_.places.data()) + owner.i * mine.elements();
    compute_.copy(HostTensor(to, DType::kI32, mine), places_, "record_choice");
}

void RetrievalSet::passing(Kernels& op, OwnerIndex owner, const LayerKv& kv, const TileRange& part) {
    if (passes_by(owner)) return;
    op.gather_chunks(layers_[owner.at()], of_sequence(kv, sequence_), places_, pick_, shape_.chunk, part);
    if (part.end == kEveryTile) chosen_[owner.at()] = true;
}

void RetrievalSet::complete(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv,
                            const TileRange& tiles) {
    op.chunk_means(means_[owner.at()], kv, sequence, tiles, shape_.chunk);
}

void RetrievalSet::kept(Kernels& op, int64_t, int64_t first, std::span<const int32_t> rows) {
    check(first == tokens_, "retrieval: {} tokens are kept after {}, here are {}", rows.size(), first, tokens_);
    op.kv_keep(layers_, kept_.send(rows, 0, [&](int64_t i) { return slots_of(first + i); }));
    kept_.used();
    if (history_) history_->kept(op, rows);
    tokens_ = first + static_cast<int64_t>(rows.size());
    check(slots() <= most_slots_, "retrieval: {} slots of {}", slots(), most_slots_);
    ready_ = compute_.record();
}

void RetrievalSet::prefilled(int64_t) {
    pick_prompt_ = pick_here_;
    if (history_) history_->forget();
    if (prompt_tiles_) compute_.copy(prompt_tiles_, tiles_, "keep_retrieved");
    ready_ = compute_.record();
}

// Both sets work on the stream of their cache.
void RetrievalSet::forked(const KvObserver& from) {
    const auto& other = static_cast<const RetrievalSet&>(from);
    compute_.wait(read_);
    compute_.copy(tiles_, other.tiles_, "fork_retrieved");
    for (size_t owner = 0; owner < means_.size(); ++owner)
        compute_.copy(means_[owner], other.means_[owner], "fork_means");
    if (prompt_tiles_) compute_.copy(prompt_tiles_, tiles_, "keep_retrieved");
    check(!other.moved_, "retrieval: a sequence forks after another selection than its prompt's");
    if (history_) history_->forget();
    tokens_ = other.tokens_;
    pick_here_ = other.pick_here_;
    pick_prompt_ = other.pick_prompt_;
    choice_.number = other.choice_.number;
    choice_.pick = other.choice_.pick;
    chooses_ = moved_ = false;
    since_ = other.since_;
    ready_ = compute_.record();
}

// A truncation to the prompt restores the prompt's selection. Others must not go below the end of the candidates.
void RetrievalSet::truncated(int64_t, int64_t n) {
    if (n == 0) {
        tokens_ = 0;
        pick_here_ = {};
        moved_ = false;
        return;
    }
    since_ = n == pick_prompt_.tokens ? 0 : since_;
    if (history_ && n == pick_prompt_.tokens) history_->forget();
    if (n == pick_prompt_.tokens && moved_) {
        check(static_cast<bool>(prompt_tiles_), "retrieval: what the prompt chose has not been kept");
        compute_.wait(read_);
        compute_.copy(tiles_, prompt_tiles_, "restore_retrieved");
        ready_ = compute_.record();
        pick_here_ = pick_prompt_;
        moved_ = false;
    }
    check(n >= pick_here_.candidates * shape_.chunk && n <= tokens_, "retrieval: {} tokens truncated to {}", tokens_,
          n);
    tokens_ = n;
}

}  // namespace trireme
