#pragma once
/// Conversion of arrays between floating types, and the search for NaN and infinity in them. These are plain loops,
/// which the compiler vectorises: loading is bound by the disk.

#include <cstddef>
#include <cstdint>

#include "runtime/dtype.h"

namespace trireme {

/// Index of the first NaN or infinity among `n` values, -1 if there is none.
int64_t first_nonfinite(DType type, const void* values, int64_t n);

/// Converts `n` finite values, rounded to nearest even. f32 beyond the range of f16 becomes infinity. `in` and `out`
/// must not overlap.
void convert(DType from, const void* in, DType to, void* out, int64_t n);

}  // namespace trireme
