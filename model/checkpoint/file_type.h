#pragma once
/// FileType: how convert --quantise chooses the type of each matrix. Names and choices are those of llama.cpp's
/// llama-quantize (src/llama-quant.cpp), for dense models and without an importance matrix.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/checkpoint/config.h"
#include "runtime/stored_type.h"

namespace trireme {

struct FileType {
    std::string_view name;  // "Q4_K_M"
    uint32_t number;        // in GGUF: 'general.file_type'
    StoredType base;        // of most matrices
};

std::span<const FileType> file_types();
/// Any case; "Q3_K", "Q4_K" and "Q5_K" are the mixtures with _M. Returns null for another name.
const FileType* file_type_named(std::string_view name);
/// The number of a file without blocks: that of the type of most weights.
uint32_t plain_file_type(DType type);

/// Returns the type of a matrix: more bits for the output matrix (or the embedding, if that is the output matrix), and
/// in mixtures for values and down projections of some layers. Rows that are no whole blocks of 256 get a type with
/// blocks of 32 instead; rows that are no whole blocks of 32 are F16. `name`: as expected_tensors() has it.
StoredType type_in(const FileType& file, const LlamaConfig& config, std::string_view name, int64_t cols);

}  // namespace trireme
