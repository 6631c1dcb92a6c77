#pragma once
/// Level: one use of a model's weights on this rank, with a stream, scratch, graphs and a cache of the KV cache. It
/// takes rows and returns logits. Several levels may share the weights.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "model/passes.h"
#include "model/scratch.h"
#include "model/weights.h"
#include "offload/full/full_cache.h"
#include "offload/stream/row_store.h"
#include "runtime/device.h"

namespace trireme {

struct LevelOptions {
    DType k_type = DType::kF16, v_type = DType::kF16;
    int64_t context = 0;  // most tokens of a sequence; 0: the model's context
    int64_t sequences = 1;
    int64_t common = 0;  // KvShape::common
    bool graphs = true;  // decode forwards are recorded once per graph_rows() and replayed, if the device can
    Residency residency = {};
    CacheMaker cache = {};         // makes the cache of the KV cache; empty: the full cache
    const char* name = "compute";  // the stream's name in traces; a literal
    Passes passes = {};            // passes of prompts, where layers read later ones
};

/// Returns the rows, padding included, of the graph for a decode forward of `rows` rows, at most kMaxRows: the next
/// larger of a few sizes. Padding rows (kernels/kv.h) change no bit of the others. Few sizes need less memory than a
/// graph for each row count, and fewer forwards run op by op before they are recorded.
int64_t graph_rows(int64_t rows);

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
    using EachLogits = std::function<void(int64_t position, HostTensor logits)>;
    void prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress = {},
                 const EachLogits& each = {});

    /// The most passes that the last prefill took over any block of iterated layers; 1 if there are none.
    int64_t passes() const { return passes_; }

    /// Enqueues one decode forward of at most kMaxRows rows; rows of a sequence are adjacent. A row's parent is an
    /// earlier row of this forward, or -1. Nothing is allocated, except a list of owners to read when the number of
    /// passes changes. The host waits only if it is four forwards ahead. The rows remain staged until keep(); those of
    /// earlier forwards are dropped. Where layers read later ones, the forward takes one pass for each row of its
    /// longest chain of parents, and is exact. Errors: Exit::kConfig beyond the context.
    void forward(std::span<const Row> rows);
    /// Like forward(), but keeps the staged rows, which may be parents: a tree grows depth by depth. Rows are numbered
    /// from the first row of the last forward(), and there are at most kMaxRows since then.
    void extend(std::span<const Row> rows);
    /// Copies the logits to the host and waits for them. Returns f32 [rows, vocab], valid until the next forward.
    HostTensor logits();
    /// Samples a token for every row of the logits on the device, and waits for the ids; valid until the next call.
    /// `uniforms` [rows], in [0, 1). All ranks sample the same tokens. The last argument requests the rows'
    /// distributions as well. Errors: Exit::kData if logits are not finite.
    std::span<const int32_t> sample(const SamplingParams& params, std::span<const double> uniforms,
                                    bool distributions = false);
    /// Like sample(), but row r samples siblings: tokens [ends[r - 1], ends[r]), at most kMaxRows in all, with a
    /// uniform for each. A token comes from the row's distribution without its earlier siblings; at temperature 0 they
    /// are the likeliest in order. -1 if nothing is left. Computes all rows' distributions.
    std::span<const int32_t> sample_siblings(const SamplingParams& params, std::span<const double> uniforms,
                                             std::span<const int32_t> ends);
    /// The result of verifying a proposal. The logits' last rows before row `end` are those of the sequence's last
    /// token and of the proposed tokens.
    struct Accepted {
        std::span<const int32_t> accepted;  // tokens: a path of indices into the proposed tokens
        int32_t next;                       // the token that was sampled after them
    };
    /// Accepts or rejects on the device and waits for the result; valid until the next call. proposals[0] represents
    /// the sequence's last token (Proposal). `end`: see Accepted; -1: all rows. Several proposals may be verified one
    /// after the other; the rows' distributions are computed once. All ranks decide alike. Errors: as sample().
    Accepted accept(const SamplingParams& params, std::span<const Proposal> proposals, int64_t end = -1);
    /// Row `row` of the current logits; and its distribution, once sample() on request, sample_siblings() or accept()
    /// has computed it.
    LogitsRow logits_row(int64_t row) const;
    const RowDistribution* distribution(int64_t row) const {
        return static_cast<const RowDistribution*>(s_.distributions.data()) + row;
    }
    /// save_logits() copies the current logits, which must be one row; restore_logits() makes that copy current again.
    void save_logits();
    void restore_logits();
    /// Serialises what attention sees (KvCache::state), the saved logits and passes(). Without `tiles`, a full cache is
    /// left out: it is serialised separately.
    void state(Archive& ar, bool tiles);
    /// Commits a path of staged rows, from its first row on, after the sequence's committed tokens. Drops the
    /// sequence's other rows.
    void keep(int sequence, std::span<const int32_t> rows);
    /// Evicts tokens of an evicting cache until `tokens` more fit; false if they cannot (KvCache::reserve). Enqueues.
    bool reserve(int sequence, int64_t tokens) { return cache_->reserve(*decode_op_, sequence, tokens); }
    /// Drops all tokens from position n on.
    void truncate(int sequence, int64_t n);
    /// Gives an empty sequence the tokens of sequence 0 (KvCache::fork). Enqueues.
    void fork(int sequence) { cache_->fork(sequence); }

    /// Bytes of the KV cache of a sequence of this length on this rank; and the bytes that a decode step reads of it,
    /// which are more if several layers read one owner.
    size_t kv_bytes(int64_t tokens) const;
    size_t read_bytes(int64_t tokens) const;
    const KvCache& cache() const { return *cache_; }
    KvCache& cache() { return *cache_; }
    /// The full cache; null if LevelOptions::cache has made another one.
    FullCache* full() { return full_; }
    Stream& stream() { return *compute_; }

  private:
    using Steps = std::vector<ForwardStep>;
    std::unique_ptr<KvCache> make_cache(Device& device, const LevelOptions& options);
    int64_t passes_over(std::span<const Row> rows, int32_t first) const;
    void decode(const Batch& batch, int64_t passes);
    void run_segment(const Batch& batch, const Steps& steps, size_t begin, size_t end);
    void replay(const Batch& batch, const Steps& steps, size_t begin, size_t end);
    void prefill_part(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each);
    Batch prompt_batch(int sequence, std::span<const int32_t> tokens, int64_t done, int64_t rows);
    void prefill_by_batches(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                            const EachLogits& each);
    void prefill_by_layers(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                           const EachLogits& each);
    void iterate(const LayerBlock& block, std::span<const Batch> batches);
    void clear_layer(LayerIndex layer, std::span<const Batch> batches);
    void copy_rows(RowStore& to, RowStore& from, int64_t blocks);
    float largest_change();
    void prefill_layer(LayerIndex layer, std::span<const Batch> batches);
    void write_layer(LayerIndex layer, std::span<const Batch> batches);
    void finish_last_row(const Batch& last, const Tensor& x);
    void prefill_head(const Tensor& x, int64_t position, bool last, const EachLogits& each);

    void layer(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x, bool writes);
    void project(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x, bool writes);
    void project_keys(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x);
    void store(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& kv);
    void attention(Kernels& op, LayerIndex layer, const Batch& batch);
    bool by_layers() const { return cache_->facts().by_layers || map_.upward(); }
    void output_projection(Kernels& op, LayerIndex layer, const Tensor& x);
    void feed_forward(Kernels& op, LayerIndex layer, const Tensor& x);
    void head(const Tensor& x);
    std::span<const int32_t> draw(const SamplingParams& params, std::span<const double> uniforms,
                                  const Tensor& distributions, const Tensor& ends);
    LayerIndex end() const { return LayerIndex(config_.n_layers); }
    const LayerWeights& layer_weights(LayerIndex layer) const { return weights_.layers[layer.at()]; }
    float eps() const { return static_cast<float>(config_.norm_eps); }
    /// The current logits, [ranks, padded rows, vocab_part].
    Tensor gathered() const {
        return Tensor(s_.gathered.data(), DType::kF32, {shard_.ranks, padded_rows_, shard_.vocab_part});
    }
    void set_logits_rows(int64_t rows, int64_t padded) {
        logits_rows_ = rows;
        padded_rows_ = padded;
        distributed_.reset();
    }

    const Weights& weights_;
    const LlamaConfig& config_;
    const Shard& shard_;
    Comm& comm_;
    std::unique_ptr<Stream> compute_;
    const LayerMap& map_;
    FullCache* full_ = nullptr;
    std::unique_ptr<KvCache> cache_;
    Scratch s_;
    std::unique_ptr<Kernels> decode_op_, prefill_op_;
    Rope rope_;
    BatchMaker decode_batch_, prefill_batch_;
    RowStore hidden_;               // f32 [KvCache::most_prefill(), dim]: residual streams of a layer-by-layer prefill
    RowStore block_input_;          // like hidden_: the input of iterated layers
    std::vector<RowGroup> groups_;  // rows of the last decode batch, by sequence
    Steps once_, repeated_;         // steps of decode forwards: of one pass; of several
    int64_t decode_passes_ = 1;     // passes of the last decode forward
    Passes asked_;
    int64_t passes_ = 1;
    LayerIndex last_row_from_;  // prefill: only the last row is computed from this layer's attention on; end(): all are
    bool measures_ = false;     // a prefill compares the keys and values that it writes with the previous ones
    int64_t logits_rows_ = 0, padded_rows_ = 0;  // rows of the last forward; with padding (graph_rows)
    std::optional<SamplingParams> distributed_;  // parameters of the distributions of these rows; none: not computed
    bool graphs_;                                // decode forwards as graphs
    std::array<bool, kMaxRows> warm_{};          // [rows, with padding, - 1] such a forward has run op by op
    // Graphs by rows and whether passes are repeated, then by the step at which the segment begins.
    std::map<std::pair<int64_t, bool>, std::vector<std::unique_ptr<Graph>>> recorded_;
};

}  // namespace trireme
