#pragma once
/// A GGUF file as a Llama checkpoint.

#include <memory>

#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"
#include "model/files/weight_source.h"

namespace trireme {

/// The architecture's keys. Whether embeddings are tied, and the vocabulary where the file has no tokenizer, are seen
/// in the tensors; rope.factors is left empty. Errors: Exit::kData.
LlamaConfig gguf_config(const GgufFile& file);

/// Errors: those of open_model.
std::unique_ptr<WeightSource> open_gguf_model(std::unique_ptr<ByteSource> source);

}  // namespace trireme
