#pragma once
/// Writing a model as transformers reads it: a folder with config.json, model.safetensors and the tokenizer's files.

#include <filesystem>
#include <functional>

#include "model/files/conversion.h"

namespace trireme {

/// Writes the new folder `to`. All tensors have the model's main type. `proceed` is called now and then and may throw,
/// to end the work. The folder appears when all of it is on the disk; an error leaves none (NewFolder). Errors:
/// Exit::kCantCreate where `to` is there or cannot be made, kIo (disk full), kData for rotary factors that a
/// config.json cannot say; those of reading.
void write_model_folder(const Conversion& model, const std::filesystem::path& to, const std::function<void()>& proceed);

}  // namespace trireme
