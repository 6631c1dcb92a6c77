#pragma once
/// KvAccess: addresses of keys and values in a layer's tiles and staged rows, on the CPU.

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kv_rows.h"
#include "kernels/key_order.h"
#include "kernels/kv.h"
#include "runtime/error.h"

namespace trireme {

/// The tokens of one head, one row each; elements of a row are contiguous.
template <class T>
struct HeadRows {
    const T* first;
    int64_t stride;  // elements from one token to the next

    const T* row(int64_t i) const { return first + i * stride; }
};

/// A view of a layer's KV: its tile table and memory must outlive the object.
class KvAccess {
  public:
    explicit KvAccess(const LayerKv& kv)
        : tiles_(kv.tiles.as<const int64_t>()),
          staged_k_(static_cast<char*>(kv.staged_k.data())),
          staged_v_(static_cast<char*>(kv.staged_v.data())),
          k_type_(kv.layout.k_type),
          head_dim_(kv.layout.head_dim),
          k_slot_(row_bytes(kv.layout.k_type, kv.layout.head_dim)),
          v_slot_(row_bytes(kv.layout.v_type, kv.layout.head_dim)),
          by_head_(static_cast<bool>(kv.counts)),
          tile_k_head_(by_head_ ? 0 : k_slot_ * kTileTokens),
          tile_v_head_(by_head_ ? 0 : v_slot_ * kTileTokens),
          staged_k_head_(k_slot_ * kMaxRows),
          staged_v_head_(v_slot_ * kMaxRows),
          tile_k_(by_head_ ? k_slot_ * kTileTokens : kv.layout.k_bytes()),
          first_tile_(kv.first_tile) {}

    /// Fails with Exit::kInternal, naming the operation `who`, if no tile holds the slot.
    void check_tile(int64_t sequence, int64_t slot, const char* who) const {
        const int64_t column = slot / kTileTokens - first_tile_;
        check(sequence >= 0 && sequence < tiles_.rows && slot >= 0 && column >= 0 && column < tiles_.cols &&
                  tiles_(sequence, column) != 0,
              "{}: no tile holds slot {} of sequence {}", who, slot, sequence);
    }
    /// Address of tile `index`, which the table must have.
    char* tile(int64_t sequence, int64_t index) const {
        return reinterpret_cast<char*>(static_cast<uintptr_t>(tiles_(sequence, index - first_tile_)));
    }
    /// The row of the table that has a head's tiles.
    int64_t row_of(int64_t sequence, int64_t head) const { return by_head_ ? head : sequence; }

    /// Bytes from a tile's beginning to the keys of a head; these keys.
    int64_t keys_of_head(int64_t head) const { return static_cast<int64_t>(static_cast<size_t>(head) * tile_k_head_); }
    KeyBlocks keys(char* tile, int64_t head) const {
        return {tile + static_cast<size_t>(head) * tile_k_head_, k_type_, head_dim_};
    }
    /// For writing: the value of a token of a tile (`i` below 256), or a staged row.
    char* value(char* tile, int64_t head, int64_t i) const {
        return tile + tile_k_ + static_cast<size_t>(head) * tile_v_head_ + static_cast<size_t>(i) * v_slot_;
    }
    char* staged_key(int64_t head, int64_t row) const {
        return staged_k_ + static_cast<size_t>(head) * staged_k_head_ + static_cast<size_t>(row) * k_slot_;
    }
    char* staged_value(int64_t head, int64_t row) const {
        return staged_v_ + static_cast<size_t>(head) * staged_v_head_ + static_cast<size_t>(row) * v_slot_;
    }

    /// For reading: T is the type that they are stored in.
    template <class T>
    const T* key_blocks(char* tile, int64_t head) const {
        return reinterpret_cast<const T*>(tile + static_cast<size_t>(head) * tile_k_head_);
    }
    template <class T>
    HeadRows<T> values(char* tile, int64_t head) const {
        return {reinterpret_cast<const T*>(value(tile, head, 0)), static_cast<int64_t>(v_slot_ / sizeof(T))};
    }
    template <class T>
    HeadRows<T> staged_keys(int64_t head) const {
        return {reinterpret_cast<const T*>(staged_key(head, 0)), static_cast<int64_t>(k_slot_ / sizeof(T))};
    }
    template <class T>
    HeadRows<T> staged_values(int64_t head) const {
        return {reinterpret_cast<const T*>(staged_value(head, 0)), static_cast<int64_t>(v_slot_ / sizeof(T))};
    }

    /// Bytes of the value of one token and head.
    size_t value_bytes() const { return v_slot_; }

  private:
    Matrix<const int64_t> tiles_;  // [sequences or heads, tiles]
    char *staged_k_, *staged_v_;
    DType k_type_;
    int64_t head_dim_;
    size_t k_slot_, v_slot_;                // bytes of a token of one head
    bool by_head_;                          // a tile holds one head
    size_t tile_k_head_, tile_v_head_;      // bytes from one head of a tile to the next
    size_t staged_k_head_, staged_v_head_;  // likewise for staged rows
    size_t tile_k_;                         // bytes of a tile's keys
    int64_t first_tile_;                    // the tile of column 0
};

}  // namespace trireme
