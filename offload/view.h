#pragma once
/// What attention sees of a level's keys and values. A view owns the lengths of the sequences and the rows that are
/// staged. All attention is called through it, wherever tiles lie, so that a view can use every query.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "offload/index.h"
#include "offload/staged_rows.h"
#include "runtime/archive.h"
#include "runtime/error.h"
#include "runtime/memory_bytes.h"
#include "runtime/stream.h"

namespace trireme {

class Transport;

struct KvShape {
    KvLayout layout;
    int64_t owner_layers = 0;
    int64_t sequences = 1;
    int64_t context = 0;  // tokens a sequence may have
    int64_t common = 0;   // of these so many, in whole tiles, are the same for all sequences (KvView::fork)

    int64_t tiles_per_sequence() const { return tiles_for(context); }
    int64_t common_tiles() const { return common / kTileTokens; }
    /// Tiles of an owner; the number of a sequence's tile among them.
    int64_t tiles() const { return common_tiles() + sequences * (tiles_per_sequence() - common_tiles()); }
    int64_t tile(int64_t sequence, int64_t index) const {
        return index < common_tiles() ? index : index + sequence * (tiles_per_sequence() - common_tiles());
    }
    size_t layer_bytes() const { return static_cast<size_t>(tiles()) * layout.tile_bytes(); }
    size_t bytes() const { return static_cast<size_t>(owner_layers) * layer_bytes(); }
};

/// Rows [first, first + rows) of a decode forward, all of one sequence, in slots below `bound`.
struct RowGroup {
    int64_t sequence = 0, first = 0, rows = 0, bound = 0;
};

/// A layer's attention. out, q: f32 [rows, heads * head_dim]; kv_of_head: i32 [heads], the KV head that each query head
/// reads.
struct AttentionCall {
    Tensor out, q, kv_of_head;
    RowsView rows;
    LayerIndex layer = {};  // whose queries these are
};

/// Follows what happens in a view: for code that summarises keys, or copies some of what attention reads. Kernels that
/// a call enqueues on its `op` come in the order of the calls.
class KvFollower {
  public:
    virtual ~KvFollower() = default;
    /// A decode forward begins, behind so many tokens; or a prefill, which will have read so many when it ends.
    virtual void begin(int64_t /*sequence*/, int64_t /*tokens*/) {}
    /// Queries of the rows that are about to attend an owner's tiles: f32 [rows, heads * head_dim].
    struct Queries {
        Tensor q;           // of a decode forward's rows, or of the prompt's last token, in a prefill's last batch
        int64_t first = 0;  // decode: the staged row of the first one
    };
    /// A layer is about to attend an owner's tiles. Of a forward with padding, `q` holds padding rows where the call
    /// may be recorded (KvView::recordable): the graph serves other numbers of rows. With several passes over layers,
    /// called in the last one only.
    virtual void query(Kernels& /*op*/, OwnerIndex, LayerIndex, const Queries&, const Tensor& /*kv_of_head*/) {}
    /// Whether it wants the attention of all of a prompt's rows in every layer. Else the last row's may be all that
    /// there is from the highest owner on: a prefill computes other rows only as far as keys and values need them.
    virtual bool wants_all_rows() const { return false; }
    /// Where a prefill's attention is to report the totals of so many rows (AttentionReport); none: nowhere.
    virtual Tensor totals(int64_t /*rows*/) { return {}; }
    /// Rows of a prefill have been attended, from the prompt's first on; all of the prompt that they see is in these
    /// tiles.
    virtual void attended(Kernels& /*op*/, OwnerIndex, const LayerKv&, const AttentionCall&) {}
    /// Slots [first, first + n) of a sequence have been written in these tiles, and will not be rewritten.
    virtual void wrote(Kernels& /*op*/, OwnerIndex, int64_t /*sequence*/, const LayerKv&, int64_t /*first*/,
                       int64_t /*n*/) {}
    /// These tiles are at hand now, and have been attended with these queries. The last part ends with kEveryTile.
    virtual void passing(Kernels& /*op*/, OwnerIndex, const LayerKv&, const TileRange& /*part*/) {}
    /// The kernels that fill the last slots of these tiles have been enqueued. A tile that was truncated is reported
    /// again when it has been refilled.
    virtual void complete(Kernels& /*op*/, OwnerIndex, int64_t /*sequence*/, const LayerKv&, const TileRange&) {}
    /// These staged rows are the sequence's tokens from `first` on now.
    virtual void kept(Kernels& /*op*/, int64_t /*sequence*/, int64_t /*first*/, std::span<const int32_t> /*rows*/) {}
    virtual void truncated(int64_t /*sequence*/, int64_t /*n*/) {}
    /// A prefill's work has been enqueued.
    virtual void prefilled(int64_t /*sequence*/) {}
};

/// Calls come in this order.
///
/// A decode forward: stage() for each row, begin(); for each layer write() where it is an owner, then attend(); end().
/// Its rows stay staged, and later forwards may add to their trees, until keep() commits a path of them as the
/// sequence's next tokens, or drop() discards them.
///
/// A prefill: begin_prefill(); passes over layers, each open_layer(), then write() and attend() for consecutive rows,
/// then close_layer(); end_prefill(), which commits the tokens. Unless the view wants_all_rows(), attend() may be
/// called for the prompt's last row alone. Of several passes that write a layer, the last one's keys and values stay.
/// Where the view does not ask for layers one by one (by_layers) they need not be opened and closed, so that a prompt
/// may be computed batch by batch.
class KvView {
  public:
    virtual ~KvView() = default;

    const KvShape& shape() const { return shape_; }
    /// Committed tokens of a sequence.
    int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
    /// Slots that these tokens occupy: fewer than length() in a view that keeps only some of them.
    virtual int64_t cached(int64_t sequence) const = 0;
    /// Every slot that a row of a decode forward sees or takes is below this.
    virtual int64_t most_slots() const { return shape_.context; }
    /// How many of a text's tokens attention sees once there are so many.
    virtual int64_t kept(int64_t tokens) const { return tokens; }
    /// Positions that rows are rotated for are below this.
    virtual int64_t positions() const { return most_slots(); }

    /// Of a prompt of n tokens, how many of the first and of the last ones it wants to see: a prefill is given these.
    struct PromptPart {
        int64_t first = 0, last = 0;
    };
    virtual PromptPart part_of_prompt(int64_t n) const { return {n, 0}; }
    /// Tokens that one prefill may append; a longer prompt is several of them.
    virtual int64_t most_prefill() const { return shape_.context; }
    /// Whether a slot is a token's place in its text, so that the last slots are a window.
    virtual bool in_order() const { return false; }
    /// Whether a prefill must go layer by layer: the layer's last rows before the next layer's first.
    virtual bool by_layers() const { return transport() != nullptr; }
    /// Whether a prefill must attend all of its rows in every layer, whoever wants their logits: the view, or who
    /// follows it, counts what they attend to.
    virtual bool wants_all_rows() const {
        return std::ranges::any_of(followers_, [](const KvFollower* f) { return f->wants_all_rows(); });
    }
    /// Whether write() takes keys that are not rotated: they are as they are read.
    virtual bool rotates() const { return false; }
    /// Where a row at this position of a text of so many tokens stands for its rotation.
    struct Place {
        int64_t position = 0, text = 0;
    };
    virtual Place place(int64_t /*sequence*/, int64_t position, int64_t text) const { return {position, text}; }
    /// Whether truncate(n) is possible; back to 0 it always is.
    virtual bool reaches(int64_t sequence, int64_t n) const { return n <= length(sequence); }

    const StagedRows& staged() const { return staged_; }
    /// Stages one more row of a sequence and returns its number (StagedRows::add).
    int32_t stage(int64_t sequence, int32_t parent) { return staged_.add(sequence, parent); }
    /// Forgets all staged rows.
    void drop() { staged_.clear(); }
    /// Adds a follower, which must outlive the view or be removed first. At most one asks for totals.
    void follow_with(KvFollower& follower) { followers_.push_back(&follower); }
    void unfollow(const KvFollower& follower) { std::erase(followers_, &follower); }
    /// Of a view that another one fills: takes over the tokens that this one has, forgets all staged rows, and returns
    /// how many tokens there are. -1: a prefill and keep() fill it.
    virtual int64_t follow() { return -1; }

    /// What attention will see, where no rows are staged: behind a prompt, or between rounds. What is read takes the
    /// place of what was there. The views of the two runs must be of the same shape.
    virtual void state(Archive& ar) {
        check(staged().size() == 0, "kv: {} rows are staged", staged().size());
        for (int64_t& n : lengths_) ar.value(n);
    }

    /// Bytes of the tiles on the device and in host memory, and of the device buffers that streamed tiles pass through.
    virtual MemoryBytes memory() const = 0;
    /// The copy streams of streamed tiles; null where no layer is streamed.
    virtual Transport* transport() { return nullptr; }
    const Transport* transport() const { return const_cast<KvView*>(this)->transport(); }

    /// The owners that the attentions of a forward read from now on, in order; until then, those that the view was
    /// made with.
    virtual void will_read(std::span<const OwnerIndex> /*reads*/) {}
    /// Begins a decode forward of these groups, whose rows have been staged.
    virtual void begin(std::span<const RowGroup> groups) = 0;
    virtual void end() = 0;
    /// Whether attend() of this owner enqueues the same work in all forwards of the same number of rows, so that it may
    /// be part of a recorded graph.
    virtual bool recordable(OwnerIndex owner) const = 0;

    /// Stores new rows' keys and values, f32 [rows, kv_heads * head_dim], keys rotated, unless rotates(). A decode
    /// forward writes them to the staging buffers, a prefill to the consecutive slots of the tiles that end before
    /// rows.max_slots. `change`, of a prefill: as Kernels::kv_append has it.
    virtual void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                       const Tensor& change = {}) = 0;
    /// Attention over an owner's keys and values.
    virtual void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) = 0;

    /// Commits a path of staged rows as the sequence's next tokens and drops its other rows. Errors: Exit::kInternal if
    /// the rows are no path, or exceed the context.
    virtual void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) = 0;
    /// Of a view that keeps some tokens only: lets tokens go until `tokens` more find room, so that these will not push
    /// each other out. Returns whether they will: there may be too many of them.
    virtual bool reserve(Kernels& /*op*/, int64_t /*sequence*/, int64_t /*tokens*/) { return true; }
    /// Forgets the sequence's staged rows, and its tokens from position n on; their slots are overwritten later.
    virtual void truncate(int64_t sequence, int64_t n) = 0;

    /// Gives an empty sequence the tokens of sequence 0, at least KvShape::common: those it shares, the others are
    /// copied. Such a sequence is not truncated below what it shares, but to 0.
    virtual void fork(int64_t sequence) { check(false, "kv: sequence {} cannot share another one's tokens", sequence); }
    /// Begins a prefill that appends n tokens to a sequence. Errors: Exit::kInternal if they exceed the context.
    virtual void begin_prefill(int64_t sequence, int64_t n) = 0;
    /// kWrites: the pass computes and stores the owner's keys and values. kReads: it only reads those of an earlier
    /// pass.
    enum class Pass : uint8_t { kWrites, kReads };
    /// Whether the passes from here on will be repeated, of a prefill or of a decode forward: their queries, keys and
    /// values are not what stays. Of what they attend to followers are told nothing, of complete tiles in each pass.
    void repeat_passes(bool will_be) { will_be_repeated_ = will_be; }
    virtual void open_layer(OwnerIndex owner, Pass pass) = 0;
    virtual void close_layer(OwnerIndex owner) = 0;
    virtual void end_prefill() = 0;

  protected:
    explicit KvView(const KvShape& shape) : shape_(shape), lengths_(static_cast<size_t>(shape.sequences), 0) {}

    /// Sets the sequence's number of committed tokens and drops its staged rows.
    void commit(int64_t sequence, int64_t tokens) {
        lengths_[static_cast<size_t>(sequence)] = tokens;
        staged_.drop(sequence);
    }
    /// To be called when the kernels that write slots [first, first + n) of a sequence have been enqueued: tells the
    /// followers, and which tiles they complete.
    void written(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv, int64_t first, int64_t n) const {
        for (KvFollower* follower : followers_) {
            if (!will_be_repeated_) follower->wrote(op, owner, sequence, kv, first, n);
        }
        const TileRange complete{first / kTileTokens, (first + n) / kTileTokens};
        if (complete.first >= complete.end) return;
        for (KvFollower* follower : followers_) follower->complete(op, owner, sequence, kv, complete);
    }

    std::span<KvFollower* const> followers() const { return followers_; }
    bool will_be_repeated() const { return will_be_repeated_; }

  private:
    bool will_be_repeated_ = false;
    KvShape shape_;
    std::vector<int64_t> lengths_;
    StagedRows staged_;
    std::vector<KvFollower*> followers_;
};

/// Makes a level's view; `reads`: the owner that each attention of a forward reads, in order. Work is enqueued on
/// `compute`. Errors: Exit::kOs where device or host memory does not suffice.
using ViewMaker = std::function<std::unique_ptr<KvView>(Device& device, Stream& compute, const KvShape& shape,
                                                        std::vector<OwnerIndex> reads)>;

}  // namespace trireme
