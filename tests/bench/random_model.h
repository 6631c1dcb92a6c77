#pragma once
/// A checkpoint of a well-known shape with random weights: for timing, where no checkpoint can be had.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "model/files/weight_source.h"

namespace trireme::bench {

/// Normal weights with variance 1 / columns, norms of 1; a position's value depends on tensor, row and column alone.
class RandomModel final : public WeightSource {
  public:
    /// "tiny", "smollm2-135m", "llama-2-7b", "llama-3-8b". Errors: Exit::kUsage naming them.
    explicit RandomModel(const std::string& shape);

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override;

    std::vector<float> normal_;  // rows are runs of it, begun at a place that tensor and row choose
};

}  // namespace trireme::bench
