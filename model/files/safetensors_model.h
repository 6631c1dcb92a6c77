#pragma once
/// A model folder as transformers writes it: config.json and safetensors, in one file or in shards with an index.

#include <filesystem>
#include <memory>

#include "model/files/weight_source.h"

namespace trireme {

/// What config.json and, where there is one, generation_config.json say.
LlamaConfig read_folder_config(const std::filesystem::path& folder);
/// Errors: those of open_model.
std::unique_ptr<WeightSource> open_safetensors_model(const std::filesystem::path& folder);

}  // namespace trireme
