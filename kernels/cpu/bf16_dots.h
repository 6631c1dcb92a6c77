#pragma once
/// Dot products of bf16 pairs in one instruction (AVX-512 BF16): twice the multiplications of f32 a cycle, and nothing
/// is widened. Sums are f32; products are exact. The instruction takes subnormal bf16 numbers, which are below 1.2e-38,
/// for zero.

#include <cstdint>

#include "kernels/kv.h"

namespace trireme {

/// Whether the kernels use them: the CPU has them, and Highway's AVX-512 code is in use.
bool bf16_dots();

/// Whether attention over keys and values of these types, which need no rotation, takes them: queries, then
/// probabilities, are rounded to bf16.
bool attends_pairs(const KvLayout& layout);

/// n floats rounded, then zeros up to `padded`: a row as dot products of pairs take it.
void round_to_pairs(const float* from, int64_t n, bf16* to, int64_t padded);

/// Tests and benches compare with what a CPU without them runs.
void allow_bf16_dots(bool allowed);

}  // namespace trireme
