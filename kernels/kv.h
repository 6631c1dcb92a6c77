#pragma once
/// How keys and values lie in memory, and what attention is told about them. Indices and addresses only: where a tile
/// lives and when it moves is offload/'s business.

#include <cstdint>

#include "runtime/tensor.h"

namespace trireme {

inline constexpr int64_t kTileTokens = 256;  // tokens of a tile
inline constexpr int64_t kMaxRows = 64;      // rows of one decode forward
inline constexpr int64_t kPrefillRows =
    512;  // rows of one prefill chunk: fixed, so that results do not depend on residency

/// A tile: this rank's K [kv_heads, 256, head_dim], then V [kv_heads, 256, head_dim], contiguous. Keys are rotated.
struct KvLayout {
    int64_t kv_heads = 0, head_dim = 0;
    DType k_type = DType::kF16, v_type = DType::kF16;

    size_t k_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens * head_dim) * size_of(k_type); }
    size_t v_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens * head_dim) * size_of(v_type); }
    size_t tile_bytes() const { return k_bytes() + v_bytes(); }
};

/// The KV of one owner layer, or those of its tiles that are at hand. A token at position p of sequence s lies in slot
/// p % 256 of tile tiles[s, p / 256 - first_tile].
struct LayerKv {
    KvLayout layout;
    Tensor tiles;     // i64 [sequences, tiles], device addresses
    Tensor staged_k;  // k_type [kv_heads, kMaxRows, head_dim]: the rows of the running decode forward, not yet in tiles
    Tensor staged_v;  // v_type, same shape
    int64_t first_tile = 0;
};

/// Tiles [first, end) of a sequence.
inline constexpr int64_t kEveryTile = INT64_MAX;
struct TileRange {
    int64_t first = 0, end = kEveryTile;
};

/// The rows of a forward. All i32 in device memory.
///
/// Decode: K/V of the rows are staged; row r attends tile tokens [0, committed[r]) of its sequence and, standing at
/// positions committed[r] .. positions[r], the staged rows ancestors[r, 0 .. positions[r] - committed[r]]; the last of
/// them is r itself. A chain has ancestors[r, i] = first row + i. Rows of one sequence are adjacent.
/// Prefill: rows are consecutive positions of one sequence; their K/V are in tiles; row r attends [0, positions[r]].
struct RowsView {
    Tensor positions;           // [rows]
    Tensor sequences;           // [rows]
    Tensor committed;           // [rows]
    Tensor ancestors;           // [rows, kMaxRows]
    int64_t max_positions = 0;  // host-known bound: every position is below it
    int64_t staged = 0;         // rows that are staged, where these are some of them; 0: as many as these

    /// Rows [first, first + n) of a decode forward, all below `bound`.
    RowsView some(int64_t first, int64_t n, int64_t bound) const {
        return {positions.slice_rows(first, n),
                sequences.slice_rows(first, n),
                committed.slice_rows(first, n),
                ancestors.slice_rows(first, n),
                bound,
                positions.rows()};
    }
};

}  // namespace trireme
