#pragma once
/// Splits: the runs of tiles that attention gives to one block each (split KV). A split leaves one record per query
/// vector: (max, sum, accumulator).

#include <cstdint>

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Every tile is a split.
struct TileSplits {
    TRIREME_HOST_GPU static constexpr int64_t of_tile(int64_t tile) { return tile; }
    TRIREME_HOST_GPU static constexpr int64_t first_tile(int64_t split) { return split; }
};

/// Splits of 1, 2, 4 and 8 tiles, from tiles 0, 8, 32 and 128 on. They depend on nothing but the index of a tile, so a
/// row has the same bits in any batch. Small ones at the start keep all SMs of a GPU busy at 2K tokens; large ones
/// afterwards have few records to merge: at 128K tokens 92 for each query vector instead of 512.
struct GradedSplits {
    TRIREME_HOST_GPU static constexpr int64_t of_tile(int64_t tile) {
        if (tile < 8) return tile;
        if (tile < 32) return 4 + tile / 2;
        if (tile < 128) return 12 + tile / 4;
        return 28 + tile / 8;
    }
    TRIREME_HOST_GPU static constexpr int64_t first_tile(int64_t split) {
        if (split < 8) return split;
        if (split < 20) return (split - 4) * 2;
        if (split < 44) return (split - 12) * 4;
        return (split - 28) * 8;
    }
};

}  // namespace trireme::gpu
