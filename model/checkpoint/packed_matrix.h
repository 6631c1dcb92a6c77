#pragma once
/// PackedMatrix: an int4 or FP8 matrix of a safetensors checkpoint as rows of our blocks (INT4, FP8;
/// runtime/stored_type.h). Values are exactly those of the files: (code - zero point) * scale, or e4m3 * scale.
///
/// Formats: AutoGPTQ (qweight packed along columns, transposed), AutoAWQ "gemm" (packed along rows, in the order
/// 0 2 4 6 1 3 5 7, transposed), compressed-tensors "pack-quantized" (packed along columns), FP8 (Quantisation).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/quantisation.h"
#include "model/files/byte_source.h"
#include "model/files/safetensors.h"

namespace trireme {

/// A tensor of a safetensors file.
struct PackedPart {
    const ByteSource* source;
    SafetensorsEntry entry;
};

/// Names, after the module's, of the tensors of a packed matrix; the first one holds the codes.
std::vector<std::string_view> packed_parts(PackedAs as);

/// Finds a part of the module by its name.
using FindPart = std::function<std::optional<PackedPart>(std::string_view part)>;

/// Presents [rows, cols] as a source of cols / 32 blocks per row, of type packed_type(). It reads the whole matrix at
/// the first access, and keeps the last two that were read. Returns nothing, and adds to `problems`, if parts are
/// missing or of another shape or type. The parts' sources must outlive it.
/// Errors: Exit::kData if g_idx has rows in another order (act-order).
std::unique_ptr<ByteSource> packed_matrix(const Quantisation& quantisation, const std::string& module, Shape shape,
                                          const FindPart& find, TensorProblems& problems);

StoredType packed_type(PackedAs as);

}  // namespace trireme
