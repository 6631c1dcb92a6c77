#pragma once
/// Retrieval: a sequence's tokens are grouped into chunks, and each KV head sees the chunks that match a query best
/// (TriForce, arXiv 2404.11912, section 4.1).

#include <cstdint>

namespace trireme {

/// The chunks that a head sees: the `picked` best of the first `candidates` chunks, and all tokens after these up to
/// token `tokens`. It is stored in device memory, i32 [kChunkPickWords], so that a recorded graph may use other numbers
/// in every forward. With tokens = 0 nothing is picked and nothing is gathered.
struct ChunkPick {
    int32_t candidates = 0, picked = 0, tokens = 0;

    /// Number of slots that the picked chunks and the tokens after the candidates take.
    constexpr int64_t slots(int64_t chunk) const {
        return static_cast<int64_t>(picked) * chunk + tokens - static_cast<int64_t>(candidates) * chunk;
    }
};
inline constexpr int64_t kChunkPickWords = sizeof(ChunkPick) / sizeof(int32_t);

/// Largest head_dim that retrieval supports.
inline constexpr int64_t kMostHeadDim = 256;
/// Index of a chunk that a head does not see.
inline constexpr int32_t kNotPicked = -1;

}  // namespace trireme
