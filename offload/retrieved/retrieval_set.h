#pragma once
/// RetrievalSet: the tokens of a full cache that a proposing level attends (--spec retrieval, triforce): chunks that a
/// query selects, and the most recent tokens (TriForce, arXiv 2404.11912, section 4.1). Their keys and values are
/// copied while the full cache attends its tiles, so that selecting costs no traffic of its own.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "offload/full/full_cache.h"
#include "offload/kept_lists.h"
#include "offload/retrieved/kv_set.h"
#include "offload/retrieved/query_history.h"
#include "offload/retrieved/retrieval_shape.h"
#include "runtime/buffer.h"

namespace trireme {

/// Selects at the end of a prefill with the query of the prompt's last token. Later it selects with that of a decode
/// forward's first row, or with the mean of that query and those of tokens committed before it. A layer selects before
/// its tiles pass. Tokens that are committed later are appended with the full cache's bits. If several layers read an
/// owner's keys, the first one's query selects. Of one of the cache's sequences.
class RetrievalSet final : public KvObserver, public KvSet {
  public:
    /// Follows this sequence of `full` until destruction. All work is enqueued on `compute`, the stream of `full`.
    /// Errors: Exit::kOs.
    RetrievalSet(Device& device, Stream& compute, FullCache& full, const RetrievalShape& shape, int64_t sequence = 0);
    ~RetrievalSet() override;

    const RetrievalShape& shape() const { return shape_; }
    int64_t tokens() const override { return tokens_; }
    /// Slots that are filled, in every layer: selected chunks, then all tokens after the candidates (ChunkPick).
    int64_t slots() const override { return slots_of(tokens_); }
    int64_t most_slots() const override { return most_slots_; }
    /// i64 [1, tiles], addresses of an owner's tiles.
    Tensor tiles(OwnerIndex owner) const { return layers_[owner.at()].tiles; }
    LayerKv layer(OwnerIndex owner) const override { return layers_[owner.at()]; }
    /// Stops re-selection until a reader reads the set.
    void taken_over() override { choose_again(false); }
    void begin_reading(Stream& reader) override {
        choose_again(true);
        reader.wait(ready_);
    }
    void read_until(const Event& event) override { read_ = event; }
    void reader_leaves() noexcept override;
    /// Sets whether the set re-selects while the sequence grows, as often as RetrievalShape::every. (It always does
    /// when its slots run out.)
    void choose_again(bool chooses) { chooses_ = chooses; }

    /// The last selection of the heads. `places` is valid once the stream has reached it.
    struct Choice {
        int64_t number = 0;  // selections so far, this one included
        ChunkPick pick;
        HostTensor places;  // i32 [owners, kv_heads, chunks]: Kernels::choose_chunks
    };
    /// Requires RetrievalShape::recorded for `places`. Read it before the next forward: a recorded graph copies
    /// `places` in every forward, also in those that select nothing.
    const Choice& choice() const { return choice_; }

    void state(Archive& ar) override;

    void begin(int64_t sequence, int64_t tokens) override;
    void query(Kernels& op, OwnerIndex owner, LayerIndex layer, const Queries& queries,
               const Tensor& kv_of_head) override;
    void passing(Kernels& op, OwnerIndex owner, const LayerKv& kv, const TileRange& part) override;
    void complete(Kernels& op, OwnerIndex owner, int64_t sequence, const LayerKv& kv, const TileRange& tiles) override;
    void kept(Kernels& op, int64_t sequence, int64_t first, std::span<const int32_t> rows) override;
    /// `from`: the RetrievalSet of another sequence of the same cache, with the same shape.
    void forked(const KvObserver& from) override;
    void truncated(int64_t sequence, int64_t n) override;
    void prefilled(int64_t sequence) override;

  private:
    struct Sent {
        HostTensor host;  // i32 [kChunkPickWords]
        Event free;
    };
    MemoryBytes own_memory() const;
    bool passes_by(OwnerIndex owner) const;
    int64_t slots_of(int64_t tokens) const;
    void send(const ChunkPick& pick);
    template <class T>
    void tiles_state(Archive& ar, const T& tiles, int64_t slots);

    RetrievalShape shape_;
    KvShape kv_;        // of the sequence
    int64_t sequence_;  // in `full_`
    FullCache& full_;
    Stream& compute_;
    int64_t most_slots_;
    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
    KeptLists kept_;
    std::unique_ptr<QueryHistory> history_;  // null: the forward's first row alone selects
    Tensor tiles_;                           // u8: all owners' tiles
    HostTensor prompt_tiles_;                // tiles_ as the prompt selected them; empty unless shape_.comes_back
    std::vector<LayerKv> layers_;            // by owner: its tiles here, the full cache's staged rows
    std::vector<Tensor> means_;              // by owner: [kv_heads, chunks, head_dim] of the keys' type
    Tensor places_, keys_;                   // i32, i64 [kv_heads, chunks]: for the layer whose tiles pass
    Tensor pick_;                            // i32 [kChunkPickWords]
    std::array<Sent, RetrievalShape::kSent> sent_;
    size_t next_sent_ = 0;
    Choice choice_;

    int64_t tokens_ = 0;
    ChunkPick pick_here_;    // what the tiles hold; tokens_ replaces its `tokens`
    ChunkPick pick_prompt_;  // what they held after the prompt
    bool graphs_;            // owners on chip may be recorded; every forward then enqueues the same work
    // The current forward is a prefill; it selects; the set may select again (choose_again); the tiles no longer hold
    // the prompt's selection.
    bool reading_prompt_ = true, choosing_ = false, chooses_ = false, moved_ = false;
    int64_t since_ = 0;                // forwards since the last selection
    std::vector<bool> chosen_, seen_;  // [owners] in this forward; seen_: by history_
    Event ready_, read_;
};

}  // namespace trireme
