#pragma once
/// Writing a model as transformers reads it: a folder with config.json, model.safetensors and the tokenizer's files.

#include <filesystem>
#include <functional>
#include <string_view>

#include "model/files/weight_source.h"

namespace trireme {

/// Writes the model that lies at `from` to the new folder `to`, with another layer map (LayerMap::parse; empty: its
/// own). An owner's keys and values have its own weights, or, with `average`, the mean of those of all layers that read
/// it, as LCKV's convert_pretrained.py begins. Tensors have the type that most of the model's elements are stored in.
/// `proceed` is called now and then and may throw, to end the work. The folder appears when all of it is on the disk;
/// an error leaves none (NewFolder). Errors: Exit::kCantCreate where `to` is there or cannot be made, kIo (disk full),
/// kData for text that is no map of this model, for owners without weights, and for rotary factors that a config.json
/// cannot say; those of reading.
void write_model_folder(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view layer_map,
                        bool average, const std::function<void()>& proceed);

}  // namespace trireme
