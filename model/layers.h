#pragma once
/// Layers: the forward pass of a model's layers on this rank, for decode and prefill alike. One statement of it is one
/// kernel, one copy or one collective. Everything is enqueued on the stream.

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/residual.h"
#include "model/scratch.h"
#include "model/weights.h"
#include "offload/cache.h"
#include "runtime/stream.h"

namespace trireme {

class Layers {
  public:
    /// All arguments must outlive the object.
    Layers(const Weights& weights, Comm& comm, Stream& stream, KvCache& cache, Scratch& scratch)
        : weights_(weights),
          config_(weights.config()),
          map_(config_.layer_map),
          comm_(comm),
          stream_(stream),
          cache_(cache),
          s_(scratch) {}

    /// A layer is its four parts one after another; a pass that does not write computes only the queries of its first
    /// part.
    void layer(Kernels& op, LayerIndex layer, const Batch& batch, Residual& x, bool writes);
    void project(Kernels& op, LayerIndex layer, const Batch& batch, Residual& x, bool writes);
    void attention(Kernels& op, LayerIndex layer, const Batch& batch);
    void output_projection(Kernels& op, LayerIndex layer, Residual& x);
    void feed_forward(Kernels& op, LayerIndex layer, Residual& x);
    /// All that a layer computes for rows whose outputs are not needed: an owner's keys and values.  x: f32 [rows,
    /// dim].
    void project_keys(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x);

    /// Whether keys and values of layers that are read from below are compared with the previous pass's
    /// (Kernels::kv_append); false at first.
    void compare_changes(bool compare) { compares_ = compare; }

  private:
    void write(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& kv);
    const LayerWeights& layer_weights(LayerIndex layer) const { return weights_.layers[layer.at()]; }
    float eps() const { return static_cast<float>(config_.norm_eps); }

    const Weights& weights_;
    const LlamaConfig& config_;
    const LayerMap& map_;
    Comm& comm_;
    Stream& stream_;
    KvCache& cache_;
    Scratch& s_;
    bool compares_ = false;
};

}  // namespace trireme
