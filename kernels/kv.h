#pragma once
/// How keys and values lie in memory, and what attention is told about them: slots and addresses. Where a token stands
/// in its text is not among them: positions enter keys and queries by rotation, and the order of slots. Where a tile
/// lives and when it moves is offload/'s business.

#include <cstdint>

#include "runtime/tensor.h"

namespace trireme {

inline constexpr int64_t kTileTokens = 256;  // tokens of a tile
inline constexpr int64_t kMaxRows = 64;      // rows of one decode forward
inline constexpr int64_t kPrefillRows =
    512;  // rows of a prefill batch: fixed, so that results do not depend on residency

/// That so many tokens take.
constexpr int64_t tiles_for(int64_t tokens) {
    return (tokens + kTileTokens - 1) / kTileTokens;
}

/// A tile: this rank's K [kv_heads, 256, head_dim], then V [kv_heads, 256, head_dim], contiguous. Keys are rotated.
struct KvLayout {
    int64_t kv_heads = 0, head_dim = 0;
    DType k_type = DType::kF16, v_type = DType::kF16;

    size_t k_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens * head_dim) * size_of(k_type); }
    size_t v_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens * head_dim) * size_of(v_type); }
    size_t tile_bytes() const { return k_bytes() + v_bytes(); }
    /// Keys, or values, of the rows of one decode forward.
    Shape staged_shape() const { return {kv_heads, kMaxRows, head_dim}; }
    bool operator==(const KvLayout&) const = default;
};

/// What is larger becomes this in an f16 cache, and with the other sign what is smaller: in a batch an infinity would
/// make NaNs of rows that do not see it. NaN stays NaN.
inline constexpr float kMostF16 = 65504;

/// The KV of one owner layer, or those of its tiles that are at hand. Slot i of sequence s is token i % 256 of the tile
/// tiles[s, i / 256 - first_tile].
///
/// With `counts`, each KV head has slots of its own, which its tokens take in any order (kernels/slots.h): slot i of
/// head h is token i % 256 of the tile tiles[h, i / 256], which holds this head alone, K [256, head_dim], then V.
///
/// With `angles` keys are kept unrotated, and attention rotates each by its place: in a decode forward by its rank, so
/// that the last slot that a row sees stands where RowsView::slots says; in a prefill by its slot.
struct LayerKv {
    KvLayout layout;
    Tensor tiles;     // i64 [sequences, tiles], device addresses
    Tensor staged_k;  // k_type [kv_heads, kMaxRows, head_dim]: rows that are not in tiles yet
    Tensor staged_v;  // v_type, same shape
    int64_t first_tile = 0;
    Tensor counts = {};  // i32 [kv_heads]: a head's slots in use. Instead of RowsView::cached
    Tensor ranks = {};   // i32 [kv_heads, slots], with angles: of each slot in use, counted by age
    Tensor begins = {};  // i32 [kv_heads], prefill: the first slot that a head's queries see, one behind the first
                         // row's at most; none: 0
    Tensor angles = {};  // f32 [positions, head_dim]: cosines of the pairs, then sines
};

/// What attention tells beside its result: of each query head the largest score, in powers of two, and the sum of all
/// powers below it.
struct AttentionReport {
    Tensor totals = {};  // f32 [rows, heads, 2]: (largest, sum)
    Tensor weights =
        {};  // f32 [heads, n], a decode forward of one row over slots: their powers, before division; may be none
    Tensor tops = {};  // f32 [heads, tiles]: the largest score of each tile; its weights are powers below that

    /// Whether there is anything to tell.
    explicit operator bool() const { return static_cast<bool>(totals); }
};

/// Tiles [first, end) of a sequence.
inline constexpr int64_t kEveryTile = INT64_MAX;
struct TileRange {
    int64_t first = 0, end = kEveryTile;
    bool operator==(const TileRange&) const = default;
};

inline constexpr int64_t kEverySlot = INT32_MAX;
inline constexpr int32_t kPadding = -1;  // RowsView: the sequence of padding rows, and their slot

/// The rows of a forward. All i32 in device memory.
///
/// Decode: K/V of the rows are staged. Row r attends slots [0, cached[r]) of its sequence's tiles and then, as if they
/// stood in the slots cached[r] .. slots[r], the staged rows ancestors[r, 0 .. slots[r] - cached[r]]; the last of them
/// is r's own. (slots[r] - cached[r] is the row's depth in its tree.) Rows of one sequence are adjacent.
/// Prefill: rows stand in consecutive slots of one sequence; their K/V are in tiles; row r attends slots [0, slots[r]].
///
/// Attention may be given rows that do not see themselves: slots[r] is then that of the token before. The first row of
/// a text stands in slot -1 there, in a decode forward one before cached[r]. What sees nothing gives 0.
/// A row of sequence kPadding in slot -1 with nothing cached only fills up a forward: it is not staged, and attention
/// gives it zeros. With `window` a row sees the last so many of its slots only: those above slots[r] - window.
struct RowsView {
    Tensor slots;           // [rows]
    Tensor sequences;       // [rows]
    Tensor cached;          // [rows], decode only
    Tensor ancestors;       // [rows, kMaxRows], decode only
    int64_t max_slots = 0;  // host-known bound: every slot is below it
    int64_t staged = 0;     // every ancestor is below it; 0: below the number of these rows
    int64_t window = kEverySlot;
    int64_t first_row = 0;  // of these rows, in the forward whose attention is computed in parts

    /// Rows [first, first + n) of a decode forward, in slots below `bound`.
    RowsView some(int64_t first, int64_t n, int64_t bound) const {
        return {slots.slice_rows(first, n),
                sequences.slice_rows(first, n),
                cached.slice_rows(first, n),
                ancestors.slice_rows(first, n),
                bound,
                staged == 0 ? slots.rows() : staged,
                window,
                first_row + first};
    }
};

}  // namespace trireme
