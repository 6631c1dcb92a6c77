#pragma once
/// Retrieval: a text's tokens in chunks, of which each KV head sees those that suit a query (TriForce, arXiv
/// 2404.11912, section 4.1).

#include <cstdint>

namespace trireme {

/// What a head sees of a text: of the first `candidates` chunks the `picked` best ones, and everything behind them up
/// to token `tokens`. It lies in device memory, i32 [kChunkPickWords], so that a recorded graph may pick other numbers
/// in every forward. With tokens = 0 nothing is picked and nothing is gathered.
struct ChunkPick {
    int32_t candidates = 0, picked = 0, tokens = 0;

    /// Slots that it takes where chunks have so many tokens.
    constexpr int64_t slots(int64_t chunk) const {
        return static_cast<int64_t>(picked) * chunk + tokens - static_cast<int64_t>(candidates) * chunk;
    }
};
inline constexpr int64_t kChunkPickWords = sizeof(ChunkPick) / sizeof(int32_t);

/// Elements of a head that chunks are made for.
inline constexpr int64_t kMostHeadDim = 256;
/// The place of a chunk that a head does not see.
inline constexpr int32_t kNotPicked = -1;

}  // namespace trireme
