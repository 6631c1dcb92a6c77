#pragma once
/// Weights: this rank's slices of a checkpoint, in device memory.

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/weight_matrix.h"
#include "model/checkpoint/shard.h"
#include "model/checkpoint/weight_source.h"
#include "model/weight_format.h"
#include "runtime/buffer.h"
#include "runtime/stream.h"

namespace trireme {

/// Receives `done` and `total` in bytes (loading) or tokens (prefill). Called on the host thread.
using Progress = std::function<void(int64_t done, int64_t total)>;

/// Matrices [out, in] as WeightFormat has them, norms and biases f32. Heads, ffn and vocab are this rank's. If only a
/// part of each head rotates, the rows of query and key heads are in an order in which the rotated elements are the
/// pairs (i, i + head_dim / 2) of Kernels::rope(); scores do not depend on it.
struct LayerWeights {
    Tensor attn_norm;   // [dim]
    WeightMatrix wqkv;  // [(n_heads + 2 n_kv_heads) head_dim, dim]; a layer that owns no KV has the query rows alone
    Tensor qkv_bias;    // f32 [1, rows of wqkv]; empty: none
    Tensor q_norm, k_norm;  // [head_dim]; empty: none
    WeightMatrix wo;        // [dim, n_heads head_dim]
    Tensor o_bias;          // f32 [1, dim], whole on every rank; empty: none
    Tensor ffn_norm;        // [dim]
    WeightMatrix gate_up;   // [2 ffn_dim, dim]: gate, then up
    WeightMatrix down;      // [dim, ffn_dim]
};

/// A model's weights on one rank: loaded once, shared by every Level that computes with them.
class Weights {
  public:
    /// Returns the later value of bytes(), before anything is loaded.
    static size_t bytes_for(const LlamaConfig& config, const Shard& shard, const WeightFormat& format);
    /// Returns the later value of bytes_per_step(); or the bytes that a forward of `passes` passes over iterated layers
    /// reads.
    static size_t bytes_per_step_for(const LlamaConfig& config, const Shard& shard, const WeightFormat& format,
                                     int64_t passes = 1);
    /// Reads only this rank's slices; returns when they are on the device. `context`: tokens of the run's longest
    /// sequence, 0: the model's (RopeConfig::choose_factors). `device` must outlive the object. Errors: as
    /// WeightSource::read, and Exit::kOs.
    Weights(Device& device, const WeightSource& source, const Shard& shard, const WeightFormat& format,
            const Progress& progress = {}, int64_t context = 0);

    const LlamaConfig& config() const { return config_; }
    const Shard& shard() const { return shard_; }
    /// The type of plain matrices, or of the products of blocks (WeightFormat::dtype).
    DType dtype() const { return dtype_; }
    /// Whether some matrices are in blocks.
    bool in_blocks() const { return in_blocks_; }

    WeightMatrix embedding;  // [vocab, dim], all of it
    std::vector<LayerWeights> layers;
    Tensor final_norm;     // [dim]
    WeightMatrix lm_head;  // [this rank's rows of the vocabulary, dim]; with tied embeddings a part of `embedding`
    Tensor kv_of_head;     // i32 [n_heads]: the KV head that each query head reads, both numbered within this rank

    /// Bytes in device memory.
    size_t bytes() const { return arena_.used(); }
    /// Bytes of weights that a decode step of one row reads: all but the embedding, of which it reads one row. A tied
    /// embedding counts as lm_head.
    size_t bytes_per_step() const { return bytes_per_step_; }

  private:
    LlamaConfig config_;
    Shard shard_;
    DType dtype_;
    bool in_blocks_;
    Arena<Space::kDevice> arena_;
    size_t bytes_per_step_ = 0;
};

}  // namespace trireme
