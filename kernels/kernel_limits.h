#pragma once
/// KernelLimits: the largest shapes that a Kernels object sees.

#include <cstdint>

namespace trireme {

/// What a Kernels object computes: decode forwards of at most kMaxRows rows, or prefill batches.
enum class Phase { kDecode, kPrefill };

/// Largest shapes that a Kernels object will see. Its constructor allocates all scratch.
struct KernelLimits {
    int64_t max_rows = 0;  // kMaxRows for decode, kPrefillRows for prefill
    int64_t max_k = 0;     // longest matmul input row
    int64_t max_n = 0;     // most matmul output columns
    int64_t heads = 0;     // query heads of this rank
    int64_t head_dim = 0;
    int64_t vocab = 0;    // 0: sample() and accept() are not used
    bool blocks = false;  // weights may be in blocks
};

/// Most elements of a row that is rotated or written to the KV cache; kernels count them in 32 bits.
inline constexpr int64_t kMostRowElements = int64_t{1} << 30;

}  // namespace trireme
