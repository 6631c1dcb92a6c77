#pragma once
/// A model folder as transformers writes it: config.json and safetensors, in one file or in shards with an index.

#include <filesystem>
#include <memory>

#include "model/checkpoint/weight_source.h"

namespace trireme {

/// Reads config.json and, if there is one, generation_config.json.
LlamaConfig read_folder_config(const std::filesystem::path& folder);
/// Errors: as open_model.
std::unique_ptr<WeightSource> open_safetensors_model(const std::filesystem::path& folder);

}  // namespace trireme
