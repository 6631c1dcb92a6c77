#pragma once
/// TileCode: a lossless code of KV tiles of 16-bit types, for host memory and the link. Attention reads plain tiles
/// (kernels/kv.h). TileCoder runs it on a device.
///
/// An element is stored as sign and mantissa, without change, and a code of 3 bits for its exponent: the distance from
/// the base of its channel, 0 to 6; 7 is an escape, whose exponent is stored in 8 bits after all codes. A channel is
/// one of the head_dim elements of a head's keys, or values, over the tokens of the tile. Its base is chosen for the
/// fewest escapes. bf16 takes 11 bits and the escapes, f16 14. Measured: docs/background/coded-kv.md.
///
/// A coded tile has a fixed size, so that addresses are computed. If there are more escapes than it has room for, the
/// tile must be stored as it is.
///
///     offset    content
///     0         u32 [parts]: escapes of each part; a part is the keys, or the values, of a head: first all keys
///     blocks    u16 [parts, 16]: escapes of the part before each block of 16 tokens
///     bases     u8 [parts, head_dim]
///     data      of each part, whose elements have the order of the plain tile:
///                   u8 [n]: bf16: sign and mantissa; f16: the lower 8 bits
///                   f16 only, for every 64 elements: u64 [3]: bits 8 and 9 of the mantissa, sign
///                   for every 64 elements: u64 [3]: bits 0, 1, 2 of the codes
///     escapes   u8 [capacity]

#include <cstdint>
#include <string_view>

namespace trireme {

struct KvLayout;

inline constexpr int kTokenBlocks = 16;  // of a tile
inline constexpr int kLongestCode = 6;   // distance from the base
inline constexpr int kEscape = 7;        // code of other exponents
// A base is the channel's largest exponent or at most kLowestBase below it, the highest of those with the fewest
// escapes. If these are more than kManyEscapes of 256, there are outliers, and the base may be any exponent.
inline constexpr int kLowestBase = 3, kManyEscapes = 16;
inline constexpr int64_t kCodedDim = 256;  // most elements of a head

/// Sizes and offsets, in bytes, of the code of one layout.
struct TileCode {
    int64_t heads = 0, dim = 0;         // of the layout
    bool k_f16 = false, v_f16 = false;  // else bf16
    int64_t blocks = 0, bases = 0, data = 0, k_part = 0, v_part = 0, escapes = 0;
    int64_t capacity = 0;  // escapes of a tile
    int64_t bytes = 0;     // of a coded tile
};

/// Whether a layout has a code: both types are bf16 or f16, and head_dim is a multiple of 4, at most kCodedDim.
bool has_tile_code(const KvLayout& layout);
/// Errors: Exit::kInternal for a layout without a code.
TileCode tile_code(const KvLayout& layout);

/// Encodes a tile in host memory; returns the number of its escapes. `backend`: whose order keys have (key_order.h).
uint32_t encode_tile(const TileCode& code, std::string_view backend, const char* plain, char* coded);
/// Decodes a tile in host memory.
void decode_tile(const TileCode& code, std::string_view backend, const char* coded, char* plain);

}  // namespace trireme
