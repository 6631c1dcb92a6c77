#pragma once
/// Level: one use of a model's weights on this rank, with a stream, scratch, graphs and a cache of the KV cache. It
/// takes rows and returns logits. Several levels may share the weights.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "model/decode_steps.h"
#include "model/layers.h"
#include "model/logits.h"
#include "model/passes.h"
#include "model/prefill.h"
#include "model/scratch.h"
#include "model/weights.h"
#include "offload/full/full_cache.h"
#include "runtime/device.h"

namespace trireme {

struct LevelOptions {
    DType k_type = DType::kF16, v_type = DType::kF16;  // q8_0: f16 for heads that cannot be quantised
    int64_t context = 0;                               // most tokens of a sequence; 0: the model's context
    int64_t sequences = 1;
    int64_t common = 0;  // KvShape::common
    bool graphs = true;  // decode forwards are recorded once per graph_rows() and replayed, if the device can
    Residency residency = {};
    CacheMaker cache = {};         // makes the cache of the KV cache; empty: the full cache
    const char* name = "compute";  // the stream's name in traces; a literal
    Passes passes = {};            // passes of prompts, where layers read later ones
};

class Level {
  public:
    /// `device`, `comm` and `weights` must outlive the level; `weights` must belong to comm's rank. Errors: Exit::kOs
    /// (memory), kData for a sliding window over a cache that is not in_order().
    Level(Device& device, Comm& comm, const Weights& weights, const LevelOptions& options);
    ~Level();

    const Weights& weights() const { return weights_; }
    const LlamaConfig& config() const { return config_; }
    int64_t context() const { return cache_->shape().context; }
    /// Committed tokens of a sequence.
    int64_t length(int sequence = 0) const { return cache_->length(sequence); }

    /// Appends tokens to a sequence by the prefill path and commits them. Blocks until done. Without `each`, row 0 of
    /// logits() is then the last token's; other rows are computed only up to the highest owner's keys and values
    /// (unless the cache wants_all_rows). With it, each(first position, f32 [rows, vocab]) receives the logits of all
    /// tokens, at most kMaxRows rows at a time. LevelOptions::passes gives the passes over layers that read later ones.
    /// Errors: Exit::kConfig beyond the context.
    void prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress = {},
                 const EachLogits& each = {}) {
        prefill_.run(sequence, tokens, progress, each);
    }
    /// The most passes that the last prefill took over any block of iterated layers; 1 if there are none.
    int64_t passes() const { return prefill_.passes(); }

    /// Enqueues one decode forward of at most kMaxRows rows; rows of a sequence are adjacent. A row's parent is an
    /// earlier row of this forward, or -1. Nothing is allocated, except a list of owners to read when the number of
    /// passes changes. The host waits only if it is four forwards ahead. The rows remain staged until keep(); those of
    /// earlier forwards are dropped. Where layers read later ones, the forward takes one pass for each row of its
    /// longest chain of parents, and is exact. Errors: Exit::kConfig beyond the context.
    void forward(std::span<const Row> rows);
    /// Like forward(), but keeps the staged rows, which may be parents: a tree grows depth by depth. Rows are numbered
    /// from the first row of the last forward(), and there are at most kMaxRows since then.
    void extend(std::span<const Row> rows);
    /// The logits of the last forward's rows, or of a prompt's last token.
    Logits& logits() { return logits_; }
    const Logits& logits() const { return logits_; }
    /// Serialises what attention sees (KvCache::state), the saved logits and passes(). Without `tiles`, a full cache is
    /// left out: it is serialised separately.
    void state(Archive& ar, bool tiles);
    /// Commits a path of staged rows, from its first row on, after the sequence's committed tokens. Drops the
    /// sequence's other rows.
    void keep(int sequence, std::span<const int32_t> rows);
    /// Evicts tokens of an evicting cache until `tokens` more fit; false if they cannot (KvCache::reserve). Enqueues.
    bool reserve(int sequence, int64_t tokens) { return cache_->reserve(*op_, sequence, tokens); }
    /// Drops all tokens from position n on.
    void truncate(int sequence, int64_t n);

    const KvCache& cache() const { return *cache_; }
    KvCache& cache() { return *cache_; }
    /// The full cache; null if LevelOptions::cache has made another one.
    FullCache* full() { return full_; }
    Stream& stream() { return *compute_; }

  private:
    std::unique_ptr<KvCache> make_cache(Device& device, const LevelOptions& options);
    int64_t passes_over(std::span<const Row> rows, int32_t first) const;

    const Weights& weights_;
    const LlamaConfig& config_;
    const Shard& shard_;
    Comm& comm_;
    std::unique_ptr<Stream> compute_;
    const LayerMap& map_;
    FullCache* full_ = nullptr;
    std::unique_ptr<KvCache> cache_;
    Scratch s_;
    std::unique_ptr<Kernels> op_;  // decode
    Rope rope_;
    BatchMaker batch_;
    Layers layers_;
    Logits logits_;
    DecodeSteps steps_;
    Prefill prefill_;
    std::vector<RowGroup> groups_;  // rows of the last decode batch, by sequence
};

/// Bytes of weights and of the KV cache that a decode step of a sequence of this length reads on this rank. Keys and
/// values that several layers read count for each of them.
size_t step_bytes(const Level& level, int64_t tokens);

}  // namespace trireme
