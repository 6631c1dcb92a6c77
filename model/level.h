#pragma once
/// One way of using a model's weights on this rank: a stream, scratch, graphs and a view of the KV cache. Rows in,
/// logits out. Several levels may share the weights.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/passes.h"
#include "model/scratch.h"
#include "model/shard.h"
#include "model/weights.h"
#include "offload/full_view.h"
#include "offload/stream/row_store.h"
#include "runtime/device.h"

namespace trireme {

struct LevelOptions {
    DType k_type = DType::kF16, v_type = DType::kF16;
    int64_t context = 0;  // tokens a sequence may have; 0: the model's
    int64_t sequences = 1;
    int64_t common = 0;  // KvShape's
    bool graphs = true;  // decode forwards are recorded once per graph_rows() and replayed, where the device can
    Residency residency = {};
    ViewMaker view = {};           // makes the view of the KV; empty: full_view(residency)
    const char* name = "compute";  // of its stream, in traces; a literal
    Passes passes = {};            // of prompts, where layers read later ones
};

/// Rows of the graph that serves a decode forward of `rows` rows, at most kMaxRows: the next larger of a few sizes. The
/// forward is filled up with padding rows (kernels/kv.h), which change no bit of the others. Fewer graphs than row
/// counts: less memory, and fewer forwards that run op by op before they are recorded.
int64_t graph_rows(int64_t rows);

class Level {
  public:
    /// `device`, `comm` and `weights` must outlive the level; `weights` are those of comm's rank. Errors: Exit::kOs
    /// (memory), kData for a sliding window over a view that is not in_order().
    Level(Device& device, Comm& comm, const Weights& weights, const LevelOptions& options);
    ~Level();

    const Weights& weights() const { return weights_; }
    const LlamaConfig& config() const { return config_; }
    int64_t context() const { return view_->shape().context; }
    /// Committed tokens of a sequence.
    int64_t length(int sequence = 0) const { return view_->length(sequence); }

    /// Appends tokens to a sequence by the prefill path and commits them. Blocks until done. Without `each`, row 0 of
    /// logits() is then the last token's, and the other rows are computed as far as the highest owner's keys and values
    /// (unless the view wants_all_rows). With it, each(first position, f32 [rows, vocab]) gets the logits of all
    /// tokens, at most kMaxRows rows at a time. Layers that read later ones are passed over as often as the options
    /// say. Errors: Exit::kConfig beyond the context.
    using EachLogits = std::function<void(int64_t position, HostTensor logits)>;
    void prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress = {},
                 const EachLogits& each = {});

    /// Passes that the last prefill took over iterated layers, the most of any block; 1 where there are none.
    int64_t passes() const { return passes_; }

    /// One decode forward of at most kMaxRows rows, rows of a sequence adjacent. A row's parent is an earlier row of
    /// this forward, or -1. Enqueues only: nothing is allocated (but for a list of what is read, where the number of
    /// passes is another than before), and the host waits only if it is four forwards ahead. The rows stay staged until
    /// keep(); those of earlier forwards are dropped. Where layers read later ones it takes as many passes as its
    /// longest chain of parents has rows, and is exact. Errors: Exit::kConfig beyond the context.
    void forward(std::span<const Row> rows);
    /// The same, but rows that are staged stay so, and may be parents: a tree grows level by level. Rows are numbered
    /// from the first row of the last forward(), and there are at most kMaxRows since then.
    void extend(std::span<const Row> rows);
    /// Brings the logits to the host and waits for them; f32 [rows, vocab], valid until the next forward.
    HostTensor logits();
    /// Draws a token for every row of the logits on the device, and waits for the ids; valid until the next call.
    /// `uniforms` [rows], in [0, 1). Every rank draws the same. With `laws`, law() of each row is known from then on.
    /// Errors: Exit::kData where logits are not finite.
    std::span<const int32_t> sample(const SamplingParams& params, std::span<const double> uniforms, bool laws = false);
    /// The same, but row r draws siblings: tokens [ends[r - 1], ends[r]), at most kMaxRows in all, one by one, each of
    /// what its elders leave of the row's law; at temperature 0 the likeliest in their order. -1 where nothing is left.
    /// A uniform for each token. All rows' law() is known from then on.
    std::span<const int32_t> sample_siblings(const SamplingParams& params, std::span<const double> uniforms,
                                             std::span<const int32_t> ends);
    /// What has become of a proposal whose rows, behind that of the text's last token, are the logits' last ones.
    struct Accepted {
        std::span<const int32_t> stays;  // proposed tokens, by number, each behind the one before it
        int32_t next;                    // what stands behind them
    };
    /// Decides on the device and waits for the answer; valid until the next call. proposals[0] stands for the text's
    /// last token (kernels/law.h). Every rank decides the same. Errors: as sample.
    Accepted accept(const SamplingParams& params, std::span<const Proposal> proposals);
    /// Row `row` of the current logits and, once sample() or accept() has been asked for them, its law.
    LogitsRow logits_row(int64_t row) const;
    const RowLaw* law(int64_t row) const { return static_cast<const RowLaw*>(s_.laws.data()) + row; }
    /// save_logits() copies the current logits, which must be one row; restore_logits() makes that copy current again.
    void save_logits();
    void restore_logits();
    /// What attention sees (KvView::state), and the saved logits. Without `tiles` those of a full view are told
    /// elsewhere.
    void state(Archive& ar, bool tiles);
    /// Commits a path of staged rows, from its first row on, behind the sequence's committed tokens; its other rows are
    /// dropped.
    void keep(int sequence, std::span<const int32_t> rows);
    /// Lets tokens of a bounded view go until so many more find room (KvView::reserve). Enqueues.
    bool reserve(int sequence, int64_t tokens) { return view_->reserve(*decode_op_, sequence, tokens); }
    /// Forgets all tokens from position n on.
    void truncate(int sequence, int64_t n);
    /// Gives an empty sequence the tokens of sequence 0 (KvView::fork). Enqueues.
    void fork(int sequence) { view_->fork(sequence); }

    /// Bytes of the KV of a sequence of this length on this rank; and what a decode step reads of it, which is more
    /// where several layers read one owner.
    size_t kv_bytes(int64_t tokens) const;
    size_t read_bytes(int64_t tokens) const;
    const KvView& view() const { return *view_; }
    KvView& view() { return *view_; }
    Stream& stream() { return *compute_; }

  private:
    using Steps = std::vector<ForwardStep>;
    int64_t passes_over(std::span<const Row> rows, int32_t first) const;
    void decode(const Batch& batch, int64_t passes);
    void stretch(const Batch& batch, const Steps& steps, size_t begin, size_t end);
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
    void prefill_rows(LayerIndex layer, const Batch& batch, const Tensor& x, bool writes);
    void finish_last_row(const Batch& last, const Tensor& x);
    void prefill_head(const Tensor& x, int64_t position, bool last, const EachLogits& each);

    void project(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x, bool writes);
    void project_keys(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x);
    void store(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& k, const Tensor& v);
    void attention(Kernels& op, LayerIndex layer, const Batch& batch);
    bool by_layers() const { return view_->by_layers() || map_.upward(); }
    void mix(Kernels& op, LayerIndex layer, const Tensor& x);
    void feed_forward(Kernels& op, LayerIndex layer, const Tensor& x);
    void head(const Tensor& x);
    std::span<const int32_t> draw(const SamplingParams& params, std::span<const double> uniforms, const Tensor& laws,
                                  const Tensor& ends);
    LayerIndex end() const { return LayerIndex(config_.n_layers); }
    const LayerWeights& layer_weights(LayerIndex layer) const { return weights_.layers[layer.at()]; }
    Tensor queries(int64_t rows) const {
        return s_.qkv.first_rows(rows).slice_cols(0, shard_.n_heads * config_.head_dim);
    }
    /// The current logits, [ranks, padded rows, vocab_part].
    Tensor gathered() const {
        return Tensor(s_.gathered.data(), DType::kF32, {shard_.ranks, padded_rows_, shard_.vocab_part});
    }
    void set_logits_rows(int64_t rows, int64_t padded) {
        logits_rows_ = rows;
        padded_rows_ = padded;
    }

    const Weights& weights_;
    const LlamaConfig& config_;
    const Shard& shard_;
    Comm& comm_;
    std::unique_ptr<Stream> compute_;
    const LayerMap& map_;
    std::unique_ptr<KvView> view_;
    Scratch s_;
    std::unique_ptr<Kernels> decode_op_, prefill_op_;
    Rope rope_;
    BatchMaker decode_batch_, prefill_batch_;
    RowStore hidden_;               // f32 [context, dim]: a prompt's residual streams, where layers are streamed
    RowStore block_input_;          // the same, as they come into iterated layers
    std::vector<RowGroup> groups_;  // of the last decode batch, by sequence
    Steps once_, repeated_;         // of decode forwards: of one pass; of several
    int64_t decode_passes_ = 1;     // of the last decode forward
    Passes asked_;
    int64_t passes_ = 1;
    LayerIndex last_row_from_;  // of a prefill: from this layer's attention on its last row goes alone; end(): nowhere
    bool measures_ = false;     // keys and values that a prefill writes are compared with those before
    int64_t logits_rows_ = 0, padded_rows_ = 0;  // of the last forward: its rows, and with padding (graph_rows)
    bool graphs_;                                // decode forwards as graphs
    std::array<bool, kMaxRows> warm_{};          // a forward of that many rows, padding included, has run op by op
    // By rows and whether passes are repeated, then the step where the stretch begins.
    std::map<std::pair<int64_t, bool>, std::vector<std::unique_ptr<Graph>>> recorded_;
};

}  // namespace trireme
