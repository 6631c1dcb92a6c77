#pragma once
/// WeightFormat: how a run holds a model's matrices in memory: all as one plain type, or those of quantised types in
/// the blocks of the file (kernels/weight_matrix.h).

#include <map>
#include <optional>
#include <string>

#include "model/checkpoint/weight_source.h"

namespace trireme {

class WeightFormat {
  public:
    /// All matrices as `dtype`: f32, f16 or bf16.
    WeightFormat(DType dtype = DType::kF32) : dtype_(dtype) {}  // NOLINT(google-explicit-constructor)
    /// Matrices of quantised types in their blocks, whose products are those of `as` (WeightMatrix); the others as
    /// `as`: f32 or bf16.
    WeightFormat(const WeightSource& source, DType as) : dtype_(as) {
        for (const TensorInfo& t : source.tensors()) {
            if (is_quantised(t.type) && t.shape.rank() == 2) blocks_.emplace(t.name, t.type);
        }
    }

    DType dtype() const { return dtype_; }
    /// The type of a tensor's blocks; none if it is held as dtype().
    std::optional<StoredType> blocks_of(const std::string& tensor) const {
        const auto it = blocks_.find(tensor);
        return it == blocks_.end() ? std::optional<StoredType>() : it->second;
    }
    bool has_blocks() const { return !blocks_.empty(); }

  private:
    DType dtype_;
    std::map<std::string, StoredType> blocks_;
};

}  // namespace trireme
