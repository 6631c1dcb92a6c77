#pragma once
/// Values of tensors on their way out of a file: checked for NaN and infinity, converted.

#include <cstdint>
#include <string_view>

#include "runtime/dtype.h"

namespace trireme {

/// Whose values they are, for messages.
struct ValuesOf {
    std::string_view file, tensor;
};

/// `index`: of the first of `n` values in its tensor. Errors: Exit::kData for a NaN or an infinity.
void check_finite(const ValuesOf& whose, DType type, const void* values, int64_t n, int64_t index);

/// Converts `n` finite values, rounded to nearest even. Errors: Exit::kConfig for one that is beyond the range of f16.
void convert_finite(const ValuesOf& whose, DType from, const void* in, DType to, void* out, int64_t n, int64_t index);

}  // namespace trireme
