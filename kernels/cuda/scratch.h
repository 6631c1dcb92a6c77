#pragma once
/// Scratch sizes of a GPU's operations, known without a GPU, so that a run can be planned anywhere.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace trireme::gpu {

inline constexpr int64_t kRecordHead = 2;  // floats of a record of attention before the accumulator: max and sum
/// NVIDIA recommends this for cuBLASLt on 9.0; 4 MiB are enough elsewhere.
inline constexpr size_t kMultiplyWorkspace = size_t{32} << 20;
/// Decoded weights of a panel: they fit the L2 of an RTX 4090 (72 MB) or an H100 (50 MB).
inline constexpr int64_t kPanelBytes = int64_t{32} << 20;

// Scratch holds inputs rounded to the weights' type and a panel, or attention's running records and then a wave's:
// never both.
/// Elements of a rounded row: whole pieces of MatmulDecode.
constexpr int64_t padded_k(int64_t k) {
    return (k + 31) / 32 * 32;
}
/// Floats of one row's records: one record per query head.
inline int64_t record_floats(const KernelLimits& l) {
    return l.heads * (kRecordHead + l.head_dim);
}
/// Floats of the running records of all rows, and of their open records (merge_splits.h).
inline int64_t running_floats(const KernelLimits& l) {
    return l.max_rows * record_floats(l);
}
/// Floats of a wave's records: at least 32 splits of the rows of a decode forward, 4 of a prefill's. 17 rows of 128K
/// tokens (92 splits) are one wave.
inline int64_t wave_floats(const KernelLimits& l) {
    return std::max({std::min(l.max_rows, kMaxRows) * 32, l.max_rows * 4, int64_t{256}}) * record_floats(l);
}
/// Bytes of inputs rounded to the weights' type. Weights in blocks may have columns of other ranks at both ends.
inline int64_t rounded_bytes(const KernelLimits& l) {
    return l.max_rows * padded_k(l.max_k + (l.blocks ? 2 * kMostBlock : 0)) * 2;
}
/// Rows of a panel: weights in blocks that prefill decodes at a time, for one product of cuBLASLt.
inline int64_t panel_rows(const KernelLimits& l, int64_t k, DType type) {
    const int64_t most = kPanelBytes / (k * static_cast<int64_t>(size_of(type)));
    return std::min<int64_t>(l.max_n, std::clamp<int64_t>(most / 128 * 128, 1, 65408));  // a grid has 65,535 rows
}
inline int64_t panel_bytes(const KernelLimits& l) {
    return l.blocks ? std::min(kPanelBytes, l.max_n * l.max_k * 4) : 0;
}
/// Bytes of GpuKernels' scratch.
inline size_t scratch_bytes(Phase phase, const KernelLimits& l) {
    const int64_t products = rounded_bytes(l) + (phase == Phase::kPrefill ? panel_bytes(l) : 0);
    // accept() needs the weights of a vocabulary.
    return static_cast<size_t>(std::max({products, (2 * running_floats(l) + wave_floats(l)) * 4, l.vocab * 8}));
}

}  // namespace trireme::gpu
