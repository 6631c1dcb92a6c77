#pragma once
/// Order of the keys of one head in a tile, which depends on the backend. Values and staged rows are rows of head_dim
/// elements everywhere; so are keys on GPUs and in files.
///
/// CPU: blocks of 16 keys. A block holds the first element of all 16 keys, then the second, and so on. A vector
/// register loads one element of consecutive keys, and nothing is rearranged when attention reads. bf16 keys keep two
/// elements together, for dot products of pairs. q8_0 keys have the order of interleaved weights
/// (kernels/interleaved.h), a key being a row: for each 32 elements the words of four codes, each for all 16 keys; then
/// their 16 scales. Padding of rows to whole words is at the end of a block; it has any content.

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/kv.h"

namespace trireme {

inline constexpr int64_t kKeyBlock = 16;
static_assert(kTileTokens % kKeyBlock == 0, "a head of a tile is whole blocks");

/// Index of element `e` of key `i`, below 256, among the 256 * head_dim elements of a head's keys. Not for q8_0.
constexpr int64_t key_place(std::string_view backend, DType type, int64_t head_dim, int64_t i, int64_t e) {
    if (backend != "cpu") return i * head_dim + e;
    const int64_t together = type == DType::kBF16 ? 2 : 1;
    return i / kKeyBlock * kKeyBlock * head_dim + (e / together * kKeyBlock + i % kKeyBlock) * together + e % together;
}

/// The keys of one head of a tile on the CPU. head_dim is even for bf16, a multiple of 32 for q8_0.
class KeyBlocks {
  public:
    /// `first`: the head's keys in the tile.
    KeyBlocks(char* first, DType type, int64_t head_dim)
        : first_(first),
          head_dim_(head_dim),
          unit_(type == DType::kF16 ? 2 : 4),
          units_(type == DType::kBF16   ? head_dim / 2
                 : type == DType::kQ8_0 ? head_dim / 4
                                        : head_dim),
          scales_(type == DType::kQ8_0 ? head_dim / kQuantBlock : 0),
          block_(static_cast<size_t>(kKeyBlock) * row_bytes(type, head_dim)) {}

    /// Writes elements [first, first + n) of key i from a row of n. Both bounds are even; for q8_0, multiples of 32.
    void put(int64_t i, const char* row, int64_t first, int64_t n) const {
        each_scale(i, first, n, [&](char* at, int64_t s) { std::memcpy(at, row + n + s * 2, 2); });
        if (unit_ == 2) return each(i, first, n, [&](char* at, int64_t u) { std::memcpy(at, row + u * 2, 2); });
        each(i, first, n, [&](char* at, int64_t u) { std::memcpy(at, row + u * 4, 4); });
    }
    void put(int64_t i, const char* row) const { put(i, row, 0, head_dim_); }
    /// Reads elements [first, first + n) of key i into a row of n.
    void get(int64_t i, char* row, int64_t first, int64_t n) const {
        each_scale(i, first, n, [&](char* at, int64_t s) { std::memcpy(row + n + s * 2, at, 2); });
        if (unit_ == 2) return each(i, first, n, [&](char* at, int64_t u) { std::memcpy(row + u * 2, at, 2); });
        each(i, first, n, [&](char* at, int64_t u) { std::memcpy(row + u * 4, at, 4); });
    }
    /// Copies keys [j, j + n) of `from`, which has the same type, to keys [i, i + n).
    void copy(int64_t i, const KeyBlocks& from, int64_t j, int64_t n) const {
        for (int64_t run; n > 0; i += run, j += run, n -= run) {
            run = std::min({n, kKeyBlock - i % kKeyBlock, kKeyBlock - j % kKeyBlock});
            char* to = at(i);
            const char* in = from.at(j);
            if (run == kKeyBlock) {
                std::memcpy(to, in, block_);
                continue;
            }
            each_scale(i, 0, head_dim_, [&](char* there, int64_t s) {
                std::memcpy(there, from.scale(j, s), static_cast<size_t>(run) * 2);
            });
            // Runs of 8 keys are the usual ones (chunks of 8 tokens); a memcpy of constant size is compiled without a
            // call.
            const int64_t cells = std::max<int64_t>(1, scales_), units = units_ / cells;
            for (int64_t c = 0; c < cells; ++c, to += kCell, in += kCell) {
                if (run == 8 && unit_ == 2) {
                    copy_units(to, in, units, [](char* there, const char* here) { std::memcpy(there, here, 8 * 2); });
                } else if (run == 8) {
                    copy_units(to, in, units, [](char* there, const char* here) { std::memcpy(there, here, 8 * 4); });
                } else {
                    const size_t bytes = static_cast<size_t>(run) * unit_;
                    copy_units(to, in, units, [=](char* there, const char* here) { std::memcpy(there, here, bytes); });
                }
            }
        }
    }
    /// Bytes of the blocks of n keys; the first key begins a block.
    size_t bytes_of(int64_t n) const { return static_cast<size_t>((n + kKeyBlock - 1) / kKeyBlock) * block_; }
    /// The first element of key i.
    char* at(int64_t i) const {
        return first_ + static_cast<size_t>(i / kKeyBlock) * block_ + static_cast<size_t>(i % kKeyBlock) * unit_;
    }

  private:
    static constexpr int64_t kCell = kKeyBlock * (kQuantBlock + 2);  // bytes of 32 elements of q8_0 keys

    template <class Copy>
    void copy_units(char* to, const char* in, int64_t n, const Copy& copy) const {
        const size_t stride = kKeyBlock * unit_;
        for (int64_t u = 0; u < n; ++u, to += stride, in += stride) copy(to, in);
    }
    /// Scale s of key i, and of those after it in its block.
    char* scale(int64_t i, int64_t s) const {
        return first_ + static_cast<size_t>(i / kKeyBlock) * block_ +
               static_cast<size_t>((s + 1) * kCell - kKeyBlock * 2 + i % kKeyBlock * 2);
    }
    template <class Visit>
    void each_scale(int64_t i, int64_t first, int64_t n, const Visit& visit) const {
        if (scales_ == 0) return;
        for (int64_t s = 0; s < n / kQuantBlock; ++s) visit(scale(i, first / kQuantBlock + s), s);
    }
    template <class Visit>
    void each(int64_t i, int64_t first, int64_t n, const Visit& visit) const {
        const int64_t together = head_dim_ / units_, from = first / together;
        char* key = at(i);
        for (int64_t u = 0; u < n / together; ++u) visit(key + unit_place(from + u), u);
    }
    /// Bytes from a block's first unit to unit u of the same key.
    int64_t unit_place(int64_t u) const {
        const int64_t units = u * kKeyBlock * static_cast<int64_t>(unit_);
        return scales_ == 0 ? units : units + u / (kQuantBlock / 4) * kKeyBlock * 2;
    }

    char* first_;
    int64_t head_dim_;
    size_t unit_;             // bytes of elements that are kept together
    int64_t units_, scales_;  // of a key
    size_t block_;            // bytes
};

/// Converts a head's 256 keys from a tile to rows, the order in files.
inline void rows_of_keys(std::string_view backend, DType type, int64_t head_dim, const void* keys, void* rows) {
    const size_t row = row_bytes(type, head_dim);
    if (backend != "cpu") {
        std::memcpy(rows, keys, kTileTokens * row);
        return;
    }
    const KeyBlocks from(static_cast<char*>(const_cast<void*>(keys)), type, head_dim);  // only read
    for (int64_t i = 0; i < kTileTokens; ++i) {
        from.get(i, static_cast<char*>(rows) + static_cast<size_t>(i) * row, 0, head_dim);
    }
}

/// Converts rows back to the keys of a tile.
inline void keys_of_rows(std::string_view backend, DType type, int64_t head_dim, const void* rows, void* keys) {
    const size_t row = row_bytes(type, head_dim);
    if (backend != "cpu") {
        std::memcpy(keys, rows, kTileTokens * row);
        return;
    }
    const KeyBlocks to(static_cast<char*>(keys), type, head_dim);
    for (int64_t i = 0; i < kTileTokens; ++i) to.put(i, static_cast<const char*>(rows) + static_cast<size_t>(i) * row);
}

}  // namespace trireme
