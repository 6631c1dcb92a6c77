#pragma once
/// Addresses inside a layer's KV: pure arithmetic on the layout.

#include <cstddef>
#include <cstdint>

#include "kernels/kv.h"
#include "runtime/error.h"

namespace trireme {

struct KvView {
    explicit KvView(const LayerKv& kv)
        : tiles(kv.tiles.as<const int64_t>()),
          staged_k(static_cast<char*>(kv.staged_k.data())),
          staged_v(static_cast<char*>(kv.staged_v.data())),
          k_slot(static_cast<size_t>(kv.layout.head_dim) * size_of(kv.layout.k_type)),
          v_slot(static_cast<size_t>(kv.layout.head_dim) * size_of(kv.layout.v_type)),
          tile_k_head(k_slot * kTileTokens),
          tile_v_head(v_slot * kTileTokens),
          staged_k_head(k_slot * kMaxRows),
          staged_v_head(v_slot * kMaxRows),
          tile_k(kv.layout.k_bytes()),
          first_tile(kv.first_tile) {}

    void check_tile(int64_t sequence, int64_t position, const char* who) const {
        const int64_t column = position / kTileTokens - first_tile;
        check(sequence >= 0 && sequence < tiles.rows && position >= 0 && column >= 0 && column < tiles.cols &&
                  tiles(sequence, column) != 0,
              "{}: no tile holds position {} of sequence {}", who, position, sequence);
    }
    char* tile(int64_t sequence, int64_t index) const {
        return reinterpret_cast<char*>(static_cast<uintptr_t>(tiles(sequence, index - first_tile)));
    }
    char* key(char* tile, int64_t head, int64_t slot) const {
        return tile + static_cast<size_t>(head) * tile_k_head + static_cast<size_t>(slot) * k_slot;
    }
    char* value(char* tile, int64_t head, int64_t slot) const {
        return tile + tile_k + static_cast<size_t>(head) * tile_v_head + static_cast<size_t>(slot) * v_slot;
    }
    char* staged_key(int64_t head, int64_t row) const {
        return staged_k + static_cast<size_t>(head) * staged_k_head + static_cast<size_t>(row) * k_slot;
    }
    char* staged_value(int64_t head, int64_t row) const {
        return staged_v + static_cast<size_t>(head) * staged_v_head + static_cast<size_t>(row) * v_slot;
    }

    Matrix<const int64_t> tiles;  // [sequences, tiles]
    char *staged_k, *staged_v;
    size_t k_slot, v_slot;                // bytes of a token of one head
    size_t tile_k_head, tile_v_head;      // bytes from one head of a tile to the next
    size_t staged_k_head, staged_v_head;  // likewise of the staged rows
    size_t tile_k;                        // bytes of a tile's keys
    int64_t first_tile;                   // the tile of column 0
};

}  // namespace trireme
