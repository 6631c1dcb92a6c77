#pragma once
/// Where a checkpoint's files keep a tensor. All readers know tensors by the names that Llama has in transformers; a
/// file may have another name, or one matrix for several tensors (Phi-3's qkv_proj and gate_up_proj).

#include <cstdint>
#include <string>
#include <string_view>

#include "model/checkpoint/expected_tensors.h"

namespace trireme {

/// A tensor of a file; the required tensor is its rows from row0 on.
struct FileTensor {
    std::string name;
    Shape shape;
    int64_t row0 = 0;
};

/// The place of `tensor`, which is one of expected_tensors(config), in safetensors and in GGUF.
FileTensor in_safetensors(const LlamaConfig& config, const ExpectedTensor& tensor);
FileTensor in_gguf(const LlamaConfig& config, const ExpectedTensor& tensor);
/// Whether GGUF files of `family` have a tensor's rows as rotated pairs: weights and biases of queries and keys.
bool paired_in_gguf(const Architecture& family, std::string_view name);

}  // namespace trireme
