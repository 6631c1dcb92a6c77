#include "kernels/interleaved.h"

#include <cstring>

#include "runtime/error.h"

namespace trireme {
namespace {

/// visit(bytes of a block from `at` on, their number, the place in the tile's block) for the pieces of a block.
template <class Visit>
void for_words(StoredType type, int64_t lane, const Visit& visit) {
    const BlockEnds ends = ends_of(type);
    const int64_t words = words_of(type), words_end = words * 4 * kInterleaved;
    for (int64_t w = 0; w < words; ++w)
        visit(ends.head + 4 * w, std::integral_constant<size_t, 4>(), (w * kInterleaved + lane) * 4);
    if (ends.head == 1) visit(0, std::integral_constant<size_t, 1>(), words_end + lane);
    if (ends.head == 2) visit(0, std::integral_constant<size_t, 2>(), words_end + 2 * lane);
    if (ends.tail == 2) visit(ends.head + 4 * words, std::integral_constant<size_t, 2>(), words_end + 2 * lane);
}

std::byte* tile_of(std::byte* tiles, int64_t stride, int64_t row) {
    return tiles + row / kInterleaved * kInterleaved * stride;
}

}  // namespace

void interleave(StoredType type, std::span<const std::byte> blocks, int64_t stride, std::byte* tiles, int64_t row) {
    check(can_interleave(type) && stride > 0 && blocks.size() % static_cast<size_t>(stride) == 0,
          "interleave: {} bytes in rows of {}, {}", blocks.size(), stride, name_of(type));
    const auto bytes = static_cast<int64_t>(layout_of(type).bytes);
    for (const std::byte* from = blocks.data(); from < blocks.data() + blocks.size(); from += stride, ++row) {
        std::byte* to = tile_of(tiles, stride, row);
        for (int64_t at = 0; at < stride; at += bytes) {
            for_words(type, row % kInterleaved, [&](int64_t place, auto size, int64_t in_tile) {
                std::memcpy(to + at * kInterleaved + in_tile, from + at + place, size());
            });
        }
    }
}

void read_interleaved(StoredType type, const std::byte* tiles, int64_t stride, int64_t row, int64_t first, int64_t n,
                      std::byte* out) {
    const auto bytes = static_cast<int64_t>(layout_of(type).bytes);
    const std::byte* from = tile_of(const_cast<std::byte*>(tiles), stride, row);
    for (int64_t b = 0; b < n; ++b) {
        for_words(type, row % kInterleaved, [&](int64_t place, auto size, int64_t in_tile) {
            std::memcpy(out + b * bytes + place, from + (first + b) * bytes * kInterleaved + in_tile, size());
        });
    }
}

}  // namespace trireme
