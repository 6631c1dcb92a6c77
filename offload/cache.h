#pragma once
/// KvCache: a level's KV cache as its attention sees it: all tokens, a window, retrieved or retained tokens. It owns
/// the sequences' lengths and the staged rows. Level makes all attention calls through it. So a derived cache decides
/// where keys and values are stored and which of them a row sees, and its observers can use every query.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/slots.h"
#include "offload/index.h"
#include "offload/staged_rows.h"
#include "runtime/archive.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/memory_bytes.h"
#include "runtime/stream.h"

namespace trireme {

class Transport;

/// Sizes of a level's KV cache on one rank.
struct KvShape {
    KvLayout layout;
    int64_t owner_layers = 0;
    int64_t sequences = 1;
    int64_t context = 0;  // the most tokens of a sequence
    int64_t common = 0;   // leading tokens that all sequences share, in whole tiles (KvCache::fork)

    int64_t tiles_per_sequence() const { return tiles_for(context); }
    int64_t common_tiles() const { return common / kTileTokens; }
    /// The number of an owner's tiles, of all sequences. Shared tiles count once.
    int64_t tiles() const { return common_tiles() + sequences * (tiles_per_sequence() - common_tiles()); }
    /// The index among them of a sequence's tile, whose number in the sequence is `index`.
    int64_t tile(int64_t sequence, int64_t index) const {
        return index < common_tiles() ? index : index + sequence * (tiles_per_sequence() - common_tiles());
    }
    size_t layer_bytes() const { return static_cast<size_t>(tiles()) * layout.tile_bytes(); }
    size_t bytes() const { return static_cast<size_t>(owner_layers) * layer_bytes(); }
};

/// The shape of one of these sequences alone.
inline KvShape one_sequence(KvShape shape) {
    shape.sequences = 1;
    shape.common = 0;
    return shape;
}

/// The tiles of one of several sequences, as those of sequence 0.
inline LayerKv of_sequence(LayerKv kv, int64_t sequence) {
    kv.tiles = kv.tiles.slice_rows(sequence, 1);
    return kv;
}

/// Rows [first, first + rows) of a decode forward, all of one sequence. Every slot that they occupy or see is below
/// `bound`.
struct RowGroup {
    int64_t sequence = 0, first = 0, rows = 0, bound = 0;
};

/// The arguments of a layer's attention. q: f32 [rows, heads * head_dim], out f32 or as ForwardKernels::input_of();
/// kv_of_head: i32 [heads], the KV head that each query head reads. Padding rows of a forward may not be attended:
/// their outputs, and all that is computed of these, may be NaN.
struct AttentionCall {
    Tensor out, q, kv_of_head;
    RowsView rows;
    LayerIndex layer = {};  // the layer that the queries belong to
};

/// KvObserver: an object that a full cache notifies of its events. It summarises keys, or copies some of the keys and
/// values that attention reads, for a level that proposes (RetrievalSet, HeavySet). It observes one sequence of the
/// cache. Kernels that it enqueues on `op` run in the order of the calls. Tiles that it is given: LayerKv of all
/// sequences.
class KvObserver {
  public:
    virtual ~KvObserver() = default;
    /// A decode forward begins, and the sequence has `tokens` committed tokens; or a prefill begins, after which it
    /// will have them.
    virtual void begin(int64_t /*sequence*/, int64_t /*tokens*/) {}
    /// Queries of the rows that are about to attend an owner's tiles: f32 [rows, heads * head_dim].
    struct Queries {
        Tensor q;           // the decode forward's rows; in a prefill's last batch, the prompt's last token
        int64_t first = 0;  // decode: the staged row of q's first row
    };
    /// A layer is about to attend an owner's tiles. If the call may be recorded (KvCache::recordable), Queries::q
    /// includes padding rows, because the graph also serves other numbers of rows. With several passes over layers,
    /// called in the last one only.
    virtual void query(Kernels& /*op*/, OwnerIndex, LayerIndex, const Queries&, const Tensor& /*kv_of_head*/) {}
    /// Whether the observer requires the attention of all of a prompt's rows in every layer. If not, a prefill may
    /// attend only the last row from the highest owner on: it computes other rows only as far as keys and values need
    /// them.
    virtual bool wants_all_rows() const { return false; }
    /// The tensor, f32 [rows, heads, 2], in which a prefill's attention reports its rows' totals (AttentionReport).
    /// Empty: no report.
    virtual Tensor totals(int64_t /*rows*/) { return {}; }
    /// A batch of a prefill's rows has been attended; batches come in the prompt's order. The tiles hold all tokens
    /// that the rows see.
    virtual void attended(Kernels& /*op*/, OwnerIndex, const LayerKv&, const AttentionCall&) {}
    /// Slots [first, first + n) of a sequence have been written in these tiles, and no later pass rewrites them.
    virtual void wrote(Kernels& /*op*/, OwnerIndex, int64_t /*sequence*/, const LayerKv&, int64_t /*first*/,
                       int64_t /*n*/) {}
    /// Attention has just read the tiles `part`, which are on the device for kernels that are enqueued in this call.
    /// The parts of one attention come in order; the last one ends with kEveryTile. In a prefill, only the last batch
    /// is reported, in one part.
    virtual void passing(Kernels& /*op*/, OwnerIndex, const LayerKv&, const TileRange& /*part*/) {}
    /// The kernels that fill the last slots of these tiles have been enqueued. A tile is reported again when it is
    /// refilled, after a truncation or in another pass.
    virtual void complete(Kernels& /*op*/, OwnerIndex, int64_t /*sequence*/, const LayerKv&, const TileRange&) {}
    /// These staged rows, by number, have become the sequence's tokens from `first` on.
    virtual void kept(Kernels& /*op*/, int64_t /*sequence*/, int64_t /*first*/, std::span<const int32_t> /*rows*/) {}
    /// The empty sequence gets the tokens of `from`'s sequence, and what `from` has of them (KvCache::fork).
    virtual void forked(const KvObserver& /*from*/) {}
    /// The sequence is truncated to n tokens; it may have had no more.
    virtual void truncated(int64_t /*sequence*/, int64_t /*n*/) {}
    /// A prefill's work has been enqueued, and its tokens are committed.
    virtual void prefilled(int64_t /*sequence*/) {}
};

/// Constants of a cache.
struct CacheFacts {
    int64_t most_slots = 0;  // every slot that a row of a decode forward sees or occupies is below this
    // Bound of the RoPE positions of rows, or of their distances to the keys they see. Level warns if it exceeds the
    // model's trained context. A set's cache leaves that check to its full cache.
    int64_t positions = 0;
    int64_t most_prefill = 0;     // the most tokens that one prefill may append; a longer prompt takes several prefills
    int64_t visible = INT64_MAX;  // the most tokens that attention sees
    // Of a longer prompt a prefill is given this many first tokens and this many last ones.
    int64_t prompt_first = INT64_MAX / 2, prompt_last = 0;
    bool in_order = false;        // a token's slot is its index in the sequence, so that the last slots form a window
    bool by_layers = false;       // a prefill must go layer by layer: a layer's last rows before the next layer's first
    bool sums_attention = false;  // a prefill must attend all of its rows in every layer
    // By owner: attend() enqueues different work in every forward, so graphs cannot record it. Empty: false for all.
    std::vector<bool> varies = {};
    bool rotates = false;     // write() takes unrotated keys, and attention rotates them when it reads them
    int64_t rope_text = 0;    // with rotates: the sequence length for dynamic rotary scaling
    MemoryBytes memory = {};  // tiles on the device and in host memory, and device buffers that tiles pass through
    Transport* transport = nullptr;    // KvCache::transport()
    const SlotKv* retained = nullptr;  // the retained tokens on the device, for dumps; null: nothing is evicted
};

/// Size of a sequence in its cache, and the lengths to which it can be truncated.
struct KvExtent {
    int64_t slots = 0;          // slots that its tokens occupy: fewer than tokens if only some are retained
    int64_t truncate_from = 0;  // truncate(n) is possible for n from this to the sequence's length
    int64_t saved = 0;          // truncate(n) is also possible for this n
};

/// The KV cache as a level's attention sees it. Calls come in this order.
///
/// A decode forward: stage() for each row, begin(); for each layer write() where it is an owner, then attend(); end().
/// Its rows stay staged, and later forwards may add to their trees. Finally keep() commits a path of them as the
/// sequence's next tokens, or drop() discards them.
///
/// A prefill: begin_prefill(); passes over layers, each begin_layer(), then write() and attend() for consecutive rows;
/// end(), which commits the tokens. Unless the cache wants_all_rows(), attend() may be called for the prompt's last row
/// alone. If several passes write a layer, the last one's keys and values are retained. If the cache does not require
/// layers one by one (by_layers), begin_layer() may be left out, and a prompt may be computed batch by batch.
class KvCache {
  public:
    virtual ~KvCache() = default;

    const KvShape& shape() const { return shape_; }
    /// Committed tokens of a sequence.
    int64_t length(int64_t sequence) const { return lengths_[index(sequence)]; }
    virtual KvExtent extent(int64_t sequence) const = 0;
    /// Slots that the committed tokens occupy.
    int64_t cached(int64_t sequence) const { return extent(sequence).slots; }
    /// Whether truncate(n) is possible. In caches that prefills fill, truncate(0) always is.
    bool can_truncate(int64_t sequence, int64_t n) const {
        const KvExtent e = extent(sequence);
        return n == 0 || n == e.saved || (e.truncate_from <= n && n <= length(sequence));
    }
    const CacheFacts& facts() const { return facts_; }
    /// Number of tokens visible to attention at this sequence length.
    int64_t kept(int64_t tokens) const { return std::min(tokens, facts_.visible); }
    /// Bytes of these tokens' keys and values in all owners.
    size_t bytes_of(int64_t tokens) const {
        const KvLayout& l = shape_.layout;
        const size_t token = l.tile_bytes() / static_cast<size_t>(kTileTokens);
        return static_cast<size_t>(shape_.owner_layers * kept(tokens)) * token;
    }
    /// The tokens of a prompt of n tokens that a prefill must be given: its first ones and its last ones. {n, 0}: all.
    struct PromptPart {
        int64_t first = 0, last = 0;
    };
    PromptPart part_of_prompt(int64_t n) const {
        return n <= facts_.prompt_first + facts_.prompt_last ? PromptPart{n, 0}
                                                             : PromptPart{facts_.prompt_first, facts_.prompt_last};
    }
    /// Whether a prefill must attend all of its rows in every layer, even if their logits are not requested: the cache,
    /// or one of its observers, sums attention weights.
    bool wants_all_rows() const {
        const auto wants = [](const std::vector<KvObserver*>& all) {
            return std::ranges::any_of(all, [](const KvObserver* o) { return o->wants_all_rows(); });
        };
        return facts_.sums_attention || std::ranges::any_of(observers_, wants);
    }
    /// The RoPE position and the sequence length (for dynamic scaling) to use for a row at `position` of a sequence of
    /// `text` tokens.
    struct Place {
        int64_t position = 0, text = 0;
    };
    Place rope_position(int64_t sequence, int64_t position, int64_t text) const {
        if (!facts_.rotates) return {position, text};
        return {cached(sequence) + position - length(sequence), facts_.rope_text};
    }

    const StagedRows& staged() const { return staged_; }
    /// Stages one more row of a sequence and returns its number (StagedRows::add).
    int32_t stage(int64_t sequence, int32_t parent) { return staged_.add(sequence, parent); }
    /// Discards the staged rows of a sequence; all staged rows.
    void drop(int64_t sequence) { staged_.drop(sequence); }
    void drop() { staged_.clear(); }
    /// Adds an observer of a sequence, which must outlive the cache or be removed first. At most one of each sequence
    /// may request totals. If sequences fork, each of them has the same observers, added in the same order.
    void add_observer(KvObserver& observer, int64_t sequence = 0) { observers_[index(sequence)].push_back(&observer); }
    void remove_observer(const KvObserver& observer) {
        for (std::vector<KvObserver*>& all : observers_) std::erase(all, &observer);
    }
    /// For a cache that another cache fills: adopts that cache's length, discards all staged rows, and returns the
    /// length. -1: prefills and keep() fill this cache.
    virtual int64_t adopt_length() { return -1; }

    /// Serialises what attention will see. No rows may be staged: call it after a prompt or between rounds. Reading
    /// replaces the present state. The caches of both runs must have the same shape.
    virtual void state(Archive& ar) {
        check(staged().size() == 0, "kv: {} rows are staged", staged().size());
        for (int64_t& n : lengths_) ar.value(n);
    }

    /// The copy streams of streamed tiles; null if no layer is streamed.
    Transport* transport() { return facts_.transport; }
    const Transport* transport() const { return facts_.transport; }
    const SlotKv* retained() const { return facts_.retained; }

    /// Begins a decode forward of these groups, whose rows have been staged. `reads`: the owners that the attentions of
    /// this forward and of later ones read, in order; empty: as before.
    virtual void begin(std::span<const RowGroup> groups, std::span<const OwnerIndex> reads = {}) = 0;
    /// Begins a prefill that appends n tokens to a sequence. Errors: Exit::kInternal if they exceed the context.
    virtual void begin_prefill(int64_t sequence, int64_t n) = 0;
    /// What a prefill's pass does with an owner's keys and values. kWrites: it computes and stores them. kReads: it
    /// only reads those of an earlier pass.
    enum class Pass : uint8_t { kWrites, kReads };
    /// Begins a prefill's pass over an owner's keys and values; the previous pass, if any, ends.
    virtual void begin_layer(OwnerIndex /*owner*/, Pass /*pass*/) {}
    /// Ends the forward or the prefill, after its last attend() or write(). Commits a prefill's tokens, whose kernels
    /// may still be running.
    virtual void end() = 0;
    /// Sets whether the following passes, of a prefill or a decode forward, will be repeated. Their queries, keys and
    /// values are then provisional, and observers are notified of completed tiles only. Initially false.
    void set_provisional(bool will_be) { provisional_ = will_be; }
    /// Whether attend() of this owner enqueues the same work in all forwards of the same number of rows. It may then be
    /// part of a recorded graph. With several observed sequences, rows belong to different ones in each forward.
    bool recordable(OwnerIndex owner) const {
        const bool varies = !facts_.varies.empty() && facts_.varies[owner.at()];
        return !varies && (shape_.sequences == 1 || !observed());
    }

    /// Stores new rows' keys and values, f32 [rows, kv_heads * head_dim]; keys are rotated, unless rotates(). A decode
    /// forward writes to the staging buffers. A prefill writes to consecutive slots of the tiles; the last of them is
    /// rows.max_slots - 1. `change`: see Kernels::kv_append; prefill only.
    virtual void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                       const Tensor& change = {}) = 0;
    /// Attention over an owner's keys and values.
    virtual void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) = 0;

    /// Commits a path of staged rows as the sequence's next tokens and drops its other rows. Errors: Exit::kInternal if
    /// the rows are not a path, or exceed the context.
    virtual void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) = 0;
    /// In an evicting cache: evicts until `tokens` more fit, so that these will not evict each other. Returns false,
    /// and evicts nothing, if there are too many of them. Other caches return true.
    virtual bool reserve(Kernels& /*op*/, int64_t /*sequence*/, int64_t /*tokens*/) { return true; }
    /// Discards the sequence's staged rows, and its tokens from position n on; their slots are overwritten later.
    virtual void truncate(int64_t sequence, int64_t n) = 0;

    /// Gives an empty sequence the tokens of sequence 0, which has at least KvShape::common. It shares those and copies
    /// the others. Later truncations must retain the shared tokens, or go to 0.
    virtual void fork(int64_t sequence) { check(false, "kv: sequence {} cannot share another one's tokens", sequence); }

  protected:
    /// `facts`: 0 means the context for most_slots and most_prefill, and most_slots for positions. A derived class may
    /// complete the facts in its constructor.
    explicit KvCache(const KvShape& shape, const CacheFacts& facts = {})
        : facts_(facts), shape_(shape), lengths_(static_cast<size_t>(shape.sequences), 0), observers_(lengths_.size()) {
        if (facts_.most_slots == 0) facts_.most_slots = shape.context;
        if (facts_.positions == 0) facts_.positions = facts_.most_slots;
        if (facts_.most_prefill == 0) facts_.most_prefill = shape.context;
    }

    /// Sets the sequence's number of committed tokens and drops its staged rows.
    void commit(int64_t sequence, int64_t tokens) {
        lengths_[index(sequence)] = tokens;
        staged_.drop(sequence);
    }
    bool observed() const {
        return std::ranges::any_of(observers_, [](const std::vector<KvObserver*>& all) { return !all.empty(); });
    }
    const std::vector<KvObserver*>& observers(int64_t sequence) const { return observers_[index(sequence)]; }
    /// To be called after the kernels that write slots [first, first + n) of a sequence are enqueued. Notifies the
    /// observers of these slots and of the tiles that they complete.
    void written(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv, int64_t first, int64_t n) const {
        for (KvObserver* observer : observers(sequence)) {
            if (!provisional_) observer->wrote(op, owner, sequence, kv, first, n);
        }
        const TileRange complete{first / kTileTokens, (first + n) / kTileTokens};
        if (complete.first >= complete.end) return;
        for (KvObserver* observer : observers(sequence)) observer->complete(op, owner, sequence, kv, complete);
    }

    bool provisional() const { return provisional_; }

    CacheFacts facts_;

  private:
    bool provisional_ = false;
    KvShape shape_;
    std::vector<int64_t> lengths_;
    StagedRows staged_;
    std::vector<std::vector<KvObserver*>> observers_;  // of each sequence
};

/// Makes a level's cache; `reads`: the owner that each attention of a forward reads, in order. Work is enqueued on
/// `compute`. Errors: Exit::kOs where device or host memory does not suffice.
using CacheMaker = std::function<std::unique_ptr<KvCache>(Device& device, Stream& compute, const KvShape& shape,
                                                          std::vector<OwnerIndex> reads)>;

}  // namespace trireme
