#pragma once
/// A checkpoint with random weights: of a well-known shape, for timing without the real checkpoint, or of another one.

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "model/checkpoint/weight_source.h"

namespace trireme::test {

struct RandomShape {
    std::string name;
    int64_t layers, dim, heads, kv_heads, head_dim, ffn, vocab, context;
    double theta = 1e4;
    bool tied = true;
    std::string layer_map = "";  // empty: every layer reads its own keys and values
    bool no_diagonal = false;    // tokens do not see themselves
};
/// "tiny", "smollm2-135m", "llama-2-7b", "llama-3-8b". Errors: Exit::kUsage naming them.
const RandomShape& known_shape(const std::string& name);

/// Normal weights with variance 1 / columns, norms of 1; an element depends only on tensor, row and column.
class RandomModel final : public WeightSource {
  public:
    explicit RandomModel(const RandomShape& shape);

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override;

    /// normal_ times `scale`, in T.
    template <class T>
    const std::vector<T>& scaled(float scale) const;

    std::vector<float> normal_;  // a row is a slice of it; tensor and row give its beginning
    mutable std::mutex mutex_;
    mutable std::tuple<std::map<float, std::vector<f16>>, std::map<float, std::vector<bf16>>,
                       std::map<float, std::vector<float>>>
        scaled_;  // by scale
};

}  // namespace trireme::test
