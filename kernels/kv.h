#pragma once
/// KV layout: how keys and values lie in memory, and what attention reads. Attention takes slots and addresses, not
/// positions in a sequence: these enter by the rotation of keys and queries, and by the order of slots. Where a tile is
/// stored and when it moves is decided in offload/.

#include <cstdint>

#include "runtime/tensor.h"

namespace trireme {

inline constexpr int64_t kTileTokens = 256;  // tokens of a tile
inline constexpr int64_t kMaxRows = 64;      // rows of one decode forward
inline constexpr int64_t kPrefillRows =
    512;  // rows of a prefill batch: fixed, so that results do not depend on residency

/// Number of tiles for this many tokens.
constexpr int64_t tiles_for(int64_t tokens) {
    return (tokens + kTileTokens - 1) / kTileTokens;
}

/// A row is a key or value of one token and head. A q8_0 row has blocks of 32 elements, as llama.cpp's q8_0: a code is
/// the element times 127 / (largest magnitude of its block), rounded; an element is code * scale. The codes (int8
/// [n]) come first, then the scales (f16 [n / 32]); the row is padded to whole words. Codes and scales have few bits:
/// their product is exact in f32.
inline constexpr int64_t kQuantBlock = 32, kMostQuantised = 256;  // elements of a block; of a row, at most

/// Bytes of a row of n elements; kQ8_0: whole blocks.
constexpr size_t row_bytes(DType type, int64_t n) {
    const size_t size = static_cast<size_t>(n) * size_of(type);
    return type == DType::kQ8_0 ? (size + 2 * static_cast<size_t>(n / kQuantBlock) + 3) / 4 * 4 : size;
}
/// Whether such rows can be q8_0; the type that rows of n elements get in place of it.
constexpr bool quantises(int64_t n) {
    return n % kQuantBlock == 0 && n <= kMostQuantised;
}
constexpr DType fitting_type(DType type, int64_t n) {
    return type == DType::kQ8_0 && !quantises(n) ? DType::kF16 : type;
}
/// Type and columns of a tensor that holds such rows: kQ8_0 rows are bytes.
constexpr DType stored_type(DType type) {
    return type == DType::kQ8_0 ? DType::kU8 : type;
}
constexpr int64_t stored_columns(DType type, int64_t n) {
    return type == DType::kQ8_0 ? static_cast<int64_t>(row_bytes(type, n)) : n;
}
/// Type of the mean keys of such rows.
constexpr DType mean_type(DType type) {
    return type == DType::kQ8_0 ? DType::kF16 : type;
}

/// Layout of a tile: this rank's K [kv_heads, 256, head_dim], then V [kv_heads, 256, head_dim], contiguous. Keys are
/// rotated, unless LayerKv::angles is set. On the CPU a head's keys have another order (kernels/key_order.h).
struct KvLayout {
    int64_t kv_heads = 0, head_dim = 0;
    DType k_type = DType::kF16, v_type = DType::kF16;

    size_t k_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens) * row_bytes(k_type, head_dim); }
    size_t v_bytes() const { return static_cast<size_t>(kv_heads * kTileTokens) * row_bytes(v_type, head_dim); }
    size_t tile_bytes() const { return k_bytes() + v_bytes(); }
    /// Shape of the staged keys (`type` = k_type) or values of one decode forward, of stored_type(type).
    Shape staged_shape(DType type) const { return {kv_heads, kMaxRows, stored_columns(type, head_dim)}; }
    /// That of several owners together.
    Shape staged_shape(DType type, int64_t owners) const {
        return {owners, kv_heads, kMaxRows, stored_columns(type, head_dim)};
    }
    /// Whether keys or values lose bits: q8_0.
    bool lossy() const { return k_type == DType::kQ8_0 || v_type == DType::kQ8_0; }
    bool operator==(const KvLayout&) const = default;
};

/// f16 caches clamp to +-65504: in a batch an infinity would give NaN in rows that do not see it. NaN remains NaN.
inline constexpr float kMostF16 = 65504;

/// Keys and values of one owner layer: all its tiles, or those that are resident. Slot i of sequence s is token i % 256
/// of the tile tiles[s, i / 256 - first_tile].
///
/// With `counts`, each KV head has its own slots, which its tokens take in any order (kernels/slots.h): slot i of head
/// h is token i % 256 of the tile tiles[h, i / 256]. This tile holds one head: K [256, head_dim], then V.
///
/// With `angles`, keys are stored unrotated, and attention rotates them as it reads: in a prefill by their slots; in a
/// decode forward by their ranks, such that the last slot that a row sees has position RowsView::slots.
struct LayerKv {
    KvLayout layout;
    Tensor tiles;     // i64 [sequences, tiles], device addresses
    Tensor staged_k;  // KvLayout::staged_shape(k_type): rows that are not in tiles yet
    Tensor staged_v;  // likewise, v_type
    int64_t first_tile = 0;
    Tensor counts = {};  // i32 [kv_heads]: a head's slots in use; replaces RowsView::cached
    Tensor ranks = {};   // i32 [kv_heads, slots], with angles: rank of each slot in use, by age
    Tensor begins = {};  // i32 [kv_heads], prefill: the first slot that a head's queries see, at most the first
                         // row's slot + 1; none: 0
    Tensor angles = {};  // f32 [positions, head_dim]: cosines of the pairs, then sines
};

/// Optional outputs of attention, per query head: the largest score, as an exponent of 2, and the sum of the powers
/// 2^(score - largest).
struct AttentionReport {
    Tensor totals = {};   // f32 [rows, heads, 2]: (largest, sum)
    Tensor weights = {};  // f32 [heads, n], for one decode row over slots: 2^(score - top), before division; may be
                          // none
    Tensor tops = {};     // f32 [heads, tiles]: the top of each tile, at least its largest score

    /// Whether attention writes a report.
    explicit operator bool() const { return static_cast<bool>(totals); }
};

inline constexpr int64_t kEveryTile = INT64_MAX;  // TileRange::end: up to the last tile

/// Tiles [first, end) of a sequence.
struct TileRange {
    int64_t first = 0, end = kEveryTile;
    bool operator==(const TileRange&) const = default;
};

inline constexpr int64_t kEverySlot = INT32_MAX;  // RowsView::window: no limit
inline constexpr int32_t kPadding = -1;           // RowsView: the sequence of padding rows, and their slot

/// Rows of a forward, as attention reads them. All i32 in device memory.
///
/// Decode: K/V of the rows are staged. Row r attends slots [0, cached[r]) of its sequence's tiles. Then it attends the
/// staged rows ancestors[r, 0 .. slots[r] - cached[r]], as if they were in the slots cached[r] .. slots[r]; the last of
/// them is r's own. (slots[r] - cached[r] is the row's depth in its tree.) Rows of one sequence are adjacent.
/// Prefill: rows have consecutive slots of one sequence; their K/V are in tiles; row r attends slots [0, slots[r]].
///
/// Rows may be attended without their own keys: slots[r] is then the slot of the token before. The first row of a
/// sequence then has slot -1; in a decode forward, cached[r] - 1. A row without visible keys outputs zeros.
/// A row of sequence kPadding, in slot -1 with nothing cached, only fills up a forward: it is not staged, and attention
/// outputs zeros. With `window` a row sees only its last `window` slots: those above slots[r] - window.
struct RowsView {
    Tensor slots;           // [rows]
    Tensor sequences;       // [rows]
    Tensor cached;          // [rows], decode only
    Tensor ancestors;       // [rows, kMaxRows], decode only
    int64_t max_slots = 0;  // bound known to the host: every slot is below it
    int64_t staged = 0;     // every ancestor is below it; 0: below the number of these rows
    int64_t window = kEverySlot;
    int64_t first_row = 0;  // index of the first of these rows in the forward, whose attention may be computed in parts

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
