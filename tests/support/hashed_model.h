#pragma once
/// A model whose weights are a formula of tensor and element (reference lckv 7.2), the same in any language.

#include <string>

#include "model/checkpoint/weight_source.h"

namespace trireme::test {

struct HashedShape {
    std::string layer_map;
    bool no_diagonal = false;
    int64_t layers = 4, dim = 8, heads = 2, kv_heads = 1, ffn = 12, vocab = 16;
    double scale = 0.6;  // scale of matrices
    int64_t sliding_window = 4096;
    int64_t context = 4096;
};

/// Heads have 4 elements in the reference. Here these are spread over heads of 8, the smallest size that is supported,
/// with zeros in between. RoPE angles are the same, and queries are scaled so that scores are the same.
class HashedModel final : public WeightSource {
  public:
    explicit HashedModel(const HashedShape& shape);
    /// The formula: element k of the tensor of that name, in [-1, 1).
    static double value(const std::string& name, uint32_t k);

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override;
    double scale_;
};

}  // namespace trireme::test
