#pragma once
/// The tensors that a checkpoint must hold, and a message that lists all that are wrong.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/config.h"
#include "runtime/index.h"
#include "runtime/stored_type.h"
#include "runtime/tensor.h"

namespace trireme {

struct ExpectedTensor {
    std::string name;  // Hugging Face name
    Shape shape;
};

/// Returns them in forward order: embedding, layers, norm, lm_head unless tied. Layers that are not owners have no
/// k_proj and v_proj. Where files keep them: model/checkpoint/tensor_names.h.
std::vector<ExpectedTensor> expected_tensors(const LlamaConfig& config);

/// Collects wrong tensors and reports all at once.
class TensorProblems {
  public:
    void add(std::string_view tensor, std::string_view expected, std::string_view found);
    /// Compares type and extents. Returns false and adds a line if they differ. `type_name`: as the file spells it.
    bool compare(const ExpectedTensor& want, bool type_supported, std::string_view type_name,
                 const std::vector<uint64_t>& dims);
    /// Exit::kData if there was any problem: "what: 3 tensors do not fit the config (tensor: expected / found): ...".
    void raise(std::string_view what) const;

  private:
    std::vector<std::string> lines_;  // the first kProblemsShown
    size_t count_ = 0;
};

/// The type that most elements have; f16 if that is quantised.
class NaturalType {
  public:
    void add(StoredType type, int64_t elements) { elements_[index(type)] += elements; }
    DType get() const;

  private:
    int64_t elements_[kStoredTypes] = {};
};

}  // namespace trireme
