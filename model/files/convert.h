#pragma once
/// Runs of plain numbers from one floating type to another, and the hunt for NaN and infinity. Loops the compiler
/// vectorises: loading is bound by the disk, not by these.

#include <cstddef>
#include <cstdint>

#include "runtime/dtype.h"

namespace trireme {

/// Index of the first NaN or infinity among `n` values, -1 if there is none.
int64_t first_nonfinite(DType type, const void* values, int64_t n);

/// `n` finite values, rounded to nearest even. f32 beyond the range of f16 becomes infinity. No overlap.
void convert(DType from, const void* in, DType to, void* out, int64_t n);

}  // namespace trireme
