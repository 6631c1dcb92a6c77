#pragma once
/// The forward pass of a Llama whose layers share keys and values, in float64 and by definition (reference lckv 1.1,
/// 1.4, 2.3): no tiles, no batches, no rounding.

#include <span>
#include <vector>

#include "model/checkpoint/weight_source.h"

namespace trireme::test {

class SharingReference {
  public:
    /// Weights are the source's, read in f32.
    explicit SharingReference(const WeightSource& source);

    using Rows = std::vector<std::vector<double>>;
    /// Reads a chunk of tokens after the earlier ones, in `passes` passes over iterated layers; returns [tokens][vocab]
    /// logits.
    Rows read(std::span<const int32_t> tokens, int64_t passes);
    /// Like read(), but token by token, as decoding computes.
    Rows decode(std::span<const int32_t> tokens);
    /// The keys and values that a layer has cached: [tokens][kv_heads * head_dim], keys rotated.
    const Rows& keys(int64_t layer) const { return layers_[static_cast<size_t>(layer)].keys; }
    const Rows& values(int64_t layer) const { return layers_[static_cast<size_t>(layer)].values; }

  private:
    struct Layer {
        Rows attn_norm, q, k, v, o, ffn_norm, gate, up, down;  // k and v: of owners only
        Rows keys, values;
    };
    void write(int64_t layer, const Rows& x);
    void compute(int64_t layer, Rows& x);
    std::vector<double> rotated(std::vector<double> heads, int64_t position) const;

    LlamaConfig config_;
    Rows embedding_, norm_, head_;
    std::vector<Layer> layers_;
    int64_t before_ = 0;  // tokens of earlier chunks
};

}  // namespace trireme::test
