#pragma once
/// A GGUF file as a Llama checkpoint.

#include <memory>
#include <vector>

#include "model/checkpoint/weight_source.h"
#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"

namespace trireme {

/// Returns the config that the metadata describes. The tensors decide whether embeddings are tied, and give the
/// vocabulary if no key does. rope.factors is left empty. Errors: Exit::kData.
LlamaConfig gguf_config(const GgufFile& file);

/// `parts`: one file, or those of a split model, the first one first (gguf_parts.h). Errors: as open_model.
std::unique_ptr<WeightSource> open_gguf_model(std::vector<std::unique_ptr<ByteSource>> parts);
std::unique_ptr<WeightSource> open_gguf_model(std::unique_ptr<ByteSource> source);

}  // namespace trireme
