#pragma once
/// Dot products of bf16 pairs, one instruction of AVX-512 BF16: twice the multiplications of f32 per cycle, without
/// widening. Sums are f32; products are exact. The instruction treats subnormal bf16 numbers, below 1.2e-38, as zero.

#include <cstdint>

#include "kernels/kv.h"
#include "kernels/weight_matrix.h"

namespace trireme {

/// Whether kernels use dot products of pairs: the CPU has them, and Highway's AVX-512 code is in use.
bool bf16_dots();

/// Whether products of blocks that are not interleaved, and prefill products, round activations to bf16.
inline bool rounds_to_bf16(ActivationType as) {
    return as == ActivationType::kBF16 || (interleaves(as) && bf16_dots());
}

/// Whether attention over keys and values of this layout uses dot products of pairs, if keys need no rotation. Queries
/// and probabilities are then rounded to bf16.
bool attends_pairs(const KvLayout& layout);

/// Rounds n floats and writes zeros up to `padded`: a row as dot products of pairs take it.
void round_to_pairs(const float* from, int64_t n, bf16* to, int64_t padded);

/// Allows or forbids dot products of pairs, for the whole process. Tests and benchmarks compare both.
void allow_bf16_dots(bool allowed);

}  // namespace trireme
