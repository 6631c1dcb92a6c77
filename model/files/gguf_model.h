#pragma once
/// A GGUF file as a Llama checkpoint.

#include <memory>
#include <vector>

#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"
#include "model/files/weight_source.h"

namespace trireme {

/// The config that the metadata describes. Whether embeddings are tied is taken from the tensors, and so is the
/// vocabulary where no key gives it; rope.factors is left empty. Errors: Exit::kData.
LlamaConfig gguf_config(const GgufFile& file);

/// `parts`: one file, or those of a split model, the first one first (gguf_parts.h). Errors: those of open_model.
std::unique_ptr<WeightSource> open_gguf_model(std::vector<std::unique_ptr<ByteSource>> parts);
std::unique_ptr<WeightSource> open_gguf_model(std::unique_ptr<ByteSource> source);

}  // namespace trireme
