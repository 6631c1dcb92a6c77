#pragma once
/// Writer of a model folder for transformers, with config.json, model.safetensors and the tokenizer's files.

#include <filesystem>
#include <functional>

#include "model/checkpoint/conversion.h"

namespace trireme {

/// Writes the new folder `to`, with `more` files, which are among kCopiedFiles, instead of the model's own. All tensors
/// have the model's main type. `proceed` is called repeatedly and may throw to end the work. The folder appears when
/// all of it is on the disk; an error leaves none (NewFolder). Errors: Exit::kCantCreate if `to` exists or cannot be
/// made, kIo (disk full), kData for rotary factors, which no config.json can hold; as for reading.
void write_model_folder(const Conversion& model, const std::filesystem::path& to, const std::vector<ModelFile>& more,
                        const std::function<void()>& proceed);

}  // namespace trireme
