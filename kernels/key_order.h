#pragma once
/// Order of the keys of one head in a tile, which depends on the backend. Values and staged rows are rows of head_dim
/// elements everywhere; so are keys on GPUs and in files.
///
/// CPU: blocks of 16 keys. A block holds the first element of all 16 keys, then the second, and so on. A vector
/// register loads one element of consecutive keys, and nothing is rearranged when attention reads. bf16 keys keep two
/// elements together, for dot products of pairs.

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/kv.h"

namespace trireme {

inline constexpr int64_t kKeyBlock = 16;
static_assert(kTileTokens % kKeyBlock == 0, "a head of a tile is whole blocks");

/// Index of element `e` of key `i`, below 256, among the 256 * head_dim elements of a head's keys.
constexpr int64_t key_place(std::string_view backend, DType type, int64_t head_dim, int64_t i, int64_t e) {
    if (backend != "cpu") return i * head_dim + e;
    const int64_t together = type == DType::kBF16 ? 2 : 1;
    return i / kKeyBlock * kKeyBlock * head_dim + (e / together * kKeyBlock + i % kKeyBlock) * together + e % together;
}

/// The keys of one head of a tile on the CPU. head_dim is even for bf16.
class KeyBlocks {
  public:
    /// `first`: the head's keys in the tile.
    KeyBlocks(char* first, DType type, int64_t head_dim)
        : first_(first),
          head_dim_(head_dim),
          unit_(type == DType::kF16 ? 2 : 4),
          units_(type == DType::kBF16 ? head_dim / 2 : head_dim),
          block_(static_cast<size_t>(kKeyBlock * units_) * unit_) {}

    /// Writes elements [first, first + n) of key i from a row. Both bounds are even.
    void put(int64_t i, const char* row, int64_t first, int64_t n) const {
        if (unit_ == 2)
            return each<uint16_t>(i, first, n, [&](char* at, int64_t u) { std::memcpy(at, row + u * 2, 2); });
        each<uint32_t>(i, first, n, [&](char* at, int64_t u) { std::memcpy(at, row + u * 4, 4); });
    }
    void put(int64_t i, const char* row) const { put(i, row, 0, head_dim_); }
    /// Reads elements [first, first + n) of key i into a row.
    void get(int64_t i, char* row, int64_t first, int64_t n) const {
        if (unit_ == 2)
            return each<uint16_t>(i, first, n, [&](char* at, int64_t u) { std::memcpy(row + u * 2, at, 2); });
        each<uint32_t>(i, first, n, [&](char* at, int64_t u) { std::memcpy(row + u * 4, at, 4); });
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
            // Runs of 8 keys are the usual ones (chunks of 8 tokens); a memcpy of constant size is compiled without a
            // call.
            const size_t bytes = static_cast<size_t>(run) * unit_, stride = kKeyBlock * unit_;
            if (run == 8 && unit_ == 2) {
                for (int64_t u = 0; u < units_; ++u, to += stride, in += stride) std::memcpy(to, in, 8 * 2);
            } else if (run == 8) {
                for (int64_t u = 0; u < units_; ++u, to += stride, in += stride) std::memcpy(to, in, 8 * 4);
            } else {
                for (int64_t u = 0; u < units_; ++u, to += stride, in += stride) std::memcpy(to, in, bytes);
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
    template <class Unit, class Visit>
    void each(int64_t i, int64_t first, int64_t n, const Visit& visit) const {
        const int64_t together = head_dim_ / units_;
        char* place = at(i) + static_cast<size_t>(first / together * kKeyBlock) * sizeof(Unit);
        for (int64_t u = 0; u < n / together; ++u, place += kKeyBlock * sizeof(Unit)) visit(place, u);
    }

    char* first_;
    int64_t head_dim_;
    size_t unit_;  // bytes of elements that are kept together
    int64_t units_;
    size_t block_;  // bytes
};

/// Converts a head's 256 keys from a tile to rows, the order in files.
inline void rows_of_keys(std::string_view backend, DType type, int64_t head_dim, const void* keys, void* rows) {
    const auto row = static_cast<size_t>(head_dim) * size_of(type);
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
    const auto row = static_cast<size_t>(head_dim) * size_of(type);
    if (backend != "cpu") {
        std::memcpy(keys, rows, kTileTokens * row);
        return;
    }
    const KeyBlocks to(static_cast<char*>(keys), type, head_dim);
    for (int64_t i = 0; i < kTileTokens; ++i) to.put(i, static_cast<const char*>(rows) + static_cast<size_t>(i) * row);
}

}  // namespace trireme
