#pragma once
/// Cost of decode attention by the number of rows, for `trireme plan`.

#include <cstdint>
#include <string_view>

#include "kernels/kv.h"

namespace trireme {

/// Returns how many products (a multiplication and an addition) attention computes for each slot of one layer, scores
/// and weighted values together: `rows` rows of one sequence, `heads` query heads. `backend` is "cpu" or "cuda". Keys
/// are stored rotated.
///
/// On tensor cores (kernels/cuda/attention_split.h) the query vectors of a KV head fill tiles of 16, and f32's
/// precision takes two products of f16, or three of bf16. Other types run on CUDA cores. Each of
/// their products counts as 11: on an RTX 4090, tensor cores compute 11 in the same time (27 instructions for a slot
/// and a vector of 128 elements).
double attention_products(std::string_view backend, const KvLayout& kv, int64_t heads, int64_t rows);

}  // namespace trireme
