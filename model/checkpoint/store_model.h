#pragma once
/// A whole model in one store (store/sets.h). Its data sets: every tensor under its Hugging Face name. If ranks divide
/// a matrix by columns, NAME/0, NAME/1, .. hold the columns of each rank that the file was made for, [rows, its
/// columns]: so a rank reads contiguous bytes. Matrices in blocks are u8, [rows, bytes of a row's blocks]; "about" has
/// their types: {"blocks": {NAME: "Q4_K", ..}}. "files/NAME": config.json, generation_config.json, a tokenizer's files;
/// "files/metadata.gguf": the metadata of a GGUF file. "rope.factors": f32 [head_dim / 2], if the model has some.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/checkpoint/weight_source.h"
#include "model/files/byte_source.h"
#include "model/files/store/stored_files.h"

namespace trireme {

/// Opens a stored model. Reading checks every byte against its digest. Errors: as open_model.
std::unique_ptr<WeightSource> open_store_model(std::unique_ptr<ByteSource> source);

}  // namespace trireme
