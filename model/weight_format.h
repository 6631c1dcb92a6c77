#pragma once
/// WeightFormat: how a run holds a model's matrices in memory: all as one plain type, or each as its file has it, with
/// the blocks of quantised types (kernels/weight_matrix.h).

#include <algorithm>
#include <map>
#include <string>

#include "kernels/weight_matrix.h"
#include "model/checkpoint/weight_source.h"

namespace trireme {

class WeightFormat {
  public:
    /// All matrices as `dtype`: f32, f16 or bf16.
    WeightFormat(DType dtype = DType::kF32) : dtype_(dtype) {}  // NOLINT(google-explicit-constructor)
    /// Each matrix in its type in the file. With exact activations (f32), plain matrices whose products would round
    /// them are f32 too: BF16, and with `rounds_f16` (GPUs) F16.
    WeightFormat(const WeightSource& source, ActivationType as, bool rounds_f16 = false)
        : dtype_(as == ActivationType::kF32   ? DType::kF32
                 : as == ActivationType::kF16 ? DType::kF16
                                              : DType::kBF16),
          as_(as) {
        for (const TensorInfo& t : source.tensors()) {
            if (t.shape.rank() != 2) continue;
            const bool rounds = t.type == StoredType::kBF16 || (t.type == StoredType::kF16 && rounds_f16);
            types_.emplace(t.name, as == ActivationType::kF32 && rounds ? StoredType::kF32 : t.type);
        }
    }

    DType dtype() const { return dtype_; }
    /// The activations of products of blocks.
    ActivationType activations() const { return as_; }
    /// Whether rows of this type are interleaved in memory.
    bool interleaved(StoredType type) const { return interleaves(as_) && can_interleave(type); }
    /// The type in memory of a matrix's tensor.
    StoredType type_of(const std::string& tensor) const {
        const auto it = types_.find(tensor);
        return it == types_.end() ? stored_as(dtype_) : it->second;
    }
    bool has_blocks() const {
        return std::ranges::any_of(types_, [](const auto& entry) { return is_quantised(entry.second); });
    }

  private:
    DType dtype_;
    ActivationType as_ = ActivationType::kF32;
    std::map<std::string, StoredType> types_;  // empty: all are of type dtype_
};

}  // namespace trireme
