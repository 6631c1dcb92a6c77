#pragma once
/// The Llama forward pass on this rank's shard: rows in, logits out (DESIGN sections 3 and 4).

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/files/weight_source.h"
#include "model/scratch.h"
#include "model/shard.h"
#include "model/weights.h"
#include "offload/kv_cache.h"
#include "offload/row_store.h"
#include "runtime/device.h"

namespace trireme {

struct LlamaOptions {
    DType weights = DType::kF16;  // type in memory: f32, f16 or bf16
    DType k_type = DType::kF16, v_type = DType::kF16;
    int64_t context = 0;  // tokens a sequence may have; 0: the model's
    int64_t sequences = 1;
    bool graphs = true;  // decode forwards are recorded once per number of rows and replayed, where the device can
    Residency residency = {};  // of the KV; the order of reading is the model's to say
};

class Llama {
  public:
    /// Reads this rank's slices; `device` and `comm` must outlive the model. Errors: Exit::kData (checkpoint), kConfig
    /// (context, ranks), kOs (memory).
    Llama(Device& device, Comm& comm, const WeightSource& source, const LlamaOptions& options,
          const Progress& progress = {});
    ~Llama();

    const LlamaConfig& config() const { return config_; }
    const Shard& shard() const { return shard_; }
    int64_t context() const { return kv_.shape().context; }
    /// Committed tokens of a sequence.
    int64_t length(int sequence = 0) const { return kv_.length(sequence); }

    /// Appends tokens to a sequence by the prefill path and commits them. Logits of the last token: `logits()` row 0.
    /// With `each`, also hands out the logits of every row: each(first position, f32 [rows, vocab]).
    /// Blocks until done. Errors: Exit::kConfig beyond the context.
    using EachLogits = std::function<void(int64_t position, HostTensor logits)>;
    void prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress = {},
                 const EachLogits& each = {});

    /// One decode forward of at most kMaxRows rows, rows of a sequence adjacent. Enqueues only: nothing waits, nothing
    /// is allocated. Keys and values stay provisional until keep(). Streamed layers are attended as their tiles arrive.
    void forward(std::span<const Row> rows);
    /// Brings the logits to the host and waits for them; f32 [rows, vocab], valid until the next forward.
    HostTensor logits();
    /// Draws a token for every row of the logits on the device, and waits for the ids; valid until the next call.
    /// `uniforms` [rows], in [0, 1). Every rank draws the same. Errors: Exit::kData where logits are not finite.
    std::span<const int32_t> sample(const SamplingParams& params, std::span<const double> uniforms);
    /// Keeps the logits, of one row; makes them the logits of now again.
    void save_logits();
    void restore_logits();
    /// Commits rows of the last forward, in order, behind the sequence's committed tokens; the rest is dropped.
    void keep(int sequence, std::span<const int32_t> rows);
    /// Forgets all tokens from position n on.
    void truncate(int sequence, int64_t n);

    /// Bytes of this rank's weights in memory.
    size_t weight_memory() const { return weights_.bytes(); }
    /// Bytes a decode step reads on this rank: weights once, and the KV of a sequence of this length.
    size_t weight_bytes() const { return weights_.bytes_per_step(); }
    size_t kv_bytes(int64_t tokens) const;
    const KvCache& kv() const { return kv_; }
    KvCache& kv() { return kv_; }
    Stream& stream() { return *compute_; }

  private:
    void decode(const Batch& batch);
    void stretch(const Batch& batch, int64_t after, int64_t before);
    void replay(size_t stretch, const Batch& batch, int64_t after, int64_t before);
    void arriving_attention(int64_t layer, const Batch& batch);
    void prefill_by_chunks(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                           const EachLogits& each);
    void prefill_by_layers(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                           const EachLogits& each);
    void prefill_layer(int64_t layer, const LayerKv& kv, const Batch& batch, const Tensor& x);
    void prefill_head(const Tensor& x, int64_t position, bool last, const EachLogits& each);

    void project(Kernels& op, int64_t layer, const LayerKv& kv, const Batch& batch, const Tensor& x);
    void attention(Kernels& op, const LayerKv& kv, const Batch& batch);
    void mix(Kernels& op, int64_t layer, const Tensor& x);
    void feed_forward(Kernels& op, int64_t layer, const Tensor& x);
    void head(const Tensor& x);
    int64_t owner(int64_t layer) const { return owner_of_layer_[static_cast<size_t>(layer)]; }
    bool streamed(int64_t layer) const { return !kv_.on_chip(owner(layer)); }
    const LayerWeights& weights(int64_t layer) const { return weights_.layers[static_cast<size_t>(layer)]; }
    Tensor queries(int64_t rows) const {
        return s_.qkv.first_rows(rows).slice_cols(0, shard_.n_heads * config_.head_dim);
    }
    /// The logits of now, [ranks, rows, vocab_part].
    Tensor gathered() const {
        return Tensor(s_.gathered.data(), DType::kF32, {shard_.ranks, logits_rows_, shard_.vocab_part});
    }
    Tensor kv_of_head() const { return kv_of_head_.tensor(DType::kI32, {shard_.n_heads}); }

    LlamaConfig config_;
    Shard shard_;
    Comm& comm_;
    std::unique_ptr<Stream> compute_;
    Weights weights_;
    std::vector<int64_t> owner_of_layer_;  // index into the KV cache of the layer whose K/V layer l reads
    KvCache kv_;
    Scratch s_;
    std::unique_ptr<Kernels> decode_op_, prefill_op_;
    Rope rope_;
    BatchMaker decode_batch_, prefill_batch_;
    Buffer<Space::kDevice> kv_of_head_;  // i32 [n_heads]
    RowStore hidden_;                    // f32 [context, dim]: a prompt's residual streams, where layers are streamed
    std::vector<int64_t> committed_;     // of every sequence, as the last decode batch saw it
    std::vector<RowGroup> groups_;       // of the last decode batch, by sequence
    int64_t logits_rows_ = 0;
    bool graphs_;                        // decode forwards as graphs
    std::array<bool, kMaxRows> warm_{};  // a forward of that many rows has run, op by op
    std::array<std::vector<std::unique_ptr<Graph>>, kMaxRows> recorded_;  // by rows - 1 and stretch
};

}  // namespace trireme
