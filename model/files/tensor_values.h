#pragma once
/// Checks and conversion of tensor values that were read from a file.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/dtype.h"
#include "runtime/stored_type.h"

namespace trireme {

/// The tensor that values belong to, for messages.
struct ValuesOf {
    std::string_view file, tensor;
};

/// `index`: that of the first of `n` values in its tensor. Errors: Exit::kData for a NaN or an infinity.
void check_finite(const ValuesOf& whose, DType type, const void* values, int64_t n, int64_t index);

/// Like check_finite(), for `n` values in whole blocks: most blocks need a look at their scales only.
void check_finite_blocks(const ValuesOf& whose, StoredType type, const std::byte* blocks, int64_t n, int64_t index);

/// Converts `n` finite values, rounded to nearest even. Errors: Exit::kConfig for a value beyond the range of f16.
void convert_finite(const ValuesOf& whose, DType from, const void* in, DType to, void* out, int64_t n, int64_t index);

}  // namespace trireme
