#pragma once
/// Interleaved blocks: the layout of weights in blocks for CPUs with dot products of whole numbers
/// (kernels/cpu/byte_dots.h).
///
/// Sixteen rows make a tile, which has the bytes of their blocks in another order. For each block of a row, in order, a
/// tile has its 4-byte words, each for all sixteen rows; then the one or two bytes of the block that are in no word,
/// also for all rows. So a 64-byte register has one word of each row, and the layout has no bytes more than the file.
/// A matrix ends with a whole tile, whose last rows may have any content: their products are not stored.

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/stored_type.h"

namespace trireme {

inline constexpr int64_t kInterleaved = 16;  // rows of a tile

/// Whether weights of this type can be interleaved: its codes are whole numbers of at most 8 bits.
constexpr bool can_interleave(StoredType type) {
    return is_quantised(type) && type != StoredType::kFP8;
}

/// Bytes of a block that precede its first word, and that follow the last one.
struct BlockEnds {
    int64_t head, tail;
};
constexpr BlockEnds ends_of(StoredType type) {
    switch (type) {
        case StoredType::kQ4_0:
        case StoredType::kQ5_0:
        case StoredType::kQ8_0:
        case StoredType::kIQ4_NL:
            return {2, 0};
        case StoredType::kMXFP4:
            return {1, 0};
        case StoredType::kQ3_K:
        case StoredType::kQ6_K:
            return {0, 2};
        default:
            return {0, 0};
    }
}
/// 4-byte words of a block.
constexpr int64_t words_of(StoredType type) {
    const BlockEnds ends = ends_of(type);
    return (static_cast<int64_t>(layout_of(type).bytes) - ends.head - ends.tail) / 4;
}

/// Rows of a matrix in whole tiles.
constexpr int64_t interleaved_rows(int64_t rows) {
    return (rows + kInterleaved - 1) / kInterleaved * kInterleaved;
}

/// Writes rows [row, row + rows) of interleaved weights, which `tiles` holds from row 0 on. `blocks`: these rows, one
/// after the other, `stride` bytes each. Threads may write different rows of a tile.
void interleave(StoredType type, std::span<const std::byte> blocks, int64_t stride, std::byte* tiles, int64_t row);

/// Reads blocks [first, first + n) of a row back.
void read_interleaved(StoredType type, const std::byte* tiles, int64_t stride, int64_t row, int64_t first, int64_t n,
                      std::byte* out);

}  // namespace trireme
