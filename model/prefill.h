#pragma once
/// Prefill: a prompt goes through the layers batch by batch, or layer by layer if KV is streamed, layers are iterated,
/// or the cache requires it. Both give the same bits.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "model/batch.h"
#include "model/layers.h"
#include "model/logits.h"
#include "model/passes.h"
#include "offload/stream/row_store.h"
#include "runtime/device.h"

namespace trireme {

/// Receives the logits of a prompt's tokens from `position` on, f32 [rows, vocab], at most kMaxRows rows at a time.
using EachLogits = std::function<void(int64_t position, HostTensor logits)>;

class Prefill {
  public:
    /// `hidden_on_host`: the residual streams of a layer-by-layer prefill are in host memory. References must outlive
    /// the object. Errors: Exit::kOs (memory).
    Prefill(Device& device, const Weights& weights, Comm& comm, Stream& stream, KvCache& cache, Scratch& scratch,
            Rope& rope, Layers& layers, Logits& logits, const Passes& passes, bool hidden_on_host);

    /// Level::prefill().
    void run(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each);
    /// The most passes that the last prefill took over any block of iterated layers; 1 if there are none.
    int64_t passes() const { return passes_; }
    void state(Archive& ar) { ar.value(passes_); }

  private:
    void part(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each);
    Batch prompt_batch(int sequence, std::span<const int32_t> tokens, int64_t done, int64_t rows);
    void run_by_batches(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                        const EachLogits& each);
    void run_by_layers(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each);
    void iterate(const LayerBlock& block, std::span<const Batch> batches);
    void clear_layer(LayerIndex layer, std::span<const Batch> batches);
    void copy_rows(RowStore& to, RowStore& from, int64_t blocks);
    float largest_change();
    void run_layer(LayerIndex layer, std::span<const Batch> batches);
    void write_layer(LayerIndex layer, std::span<const Batch> batches);
    void finish_last_row(const Batch& last, const Tensor& x);
    void head(const Tensor& x, int64_t position, bool last, const EachLogits& each);
    bool by_layers() const { return cache_.facts().by_layers || map_.upward(); }
    LayerIndex end() const { return LayerIndex(config_.n_layers); }

    const Weights& weights_;
    const LlamaConfig& config_;
    const LayerMap& map_;
    Comm& comm_;
    Stream& stream_;
    KvCache& cache_;
    Scratch& s_;
    Layers& layers_;
    Logits& logits_;
    std::unique_ptr<Kernels> op_;
    BatchMaker batch_;
    RowStore hidden_;       // f32 [CacheFacts::most_prefill, dim]: residual streams of a layer-by-layer prefill
    RowStore block_input_;  // like hidden_: the input of iterated layers
    Passes asked_;
    int64_t passes_ = 1;
    LayerIndex last_row_from_;  // only the last row is computed from this layer's attention on; end(): all are
};

}  // namespace trireme
