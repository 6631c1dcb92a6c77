#pragma once
/// Kv: addresses of keys and values on a GPU; and the kernels that write them.

#include "kernels/cuda/fault.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

inline constexpr int kTile = 256, kStaged = 64;  // kTileTokens, kMaxRows of kernels/kv.h
inline constexpr int32_t kPadding = -1;          // kPadding of kernels/kv.h
inline constexpr float kLargestF16 = 65504;      // kMostF16 of kernels/kv.h

/// A layer's KV as kernels see it; kernels/kv.h describes the layout.
struct Kv {
    Rows<const int64_t> tiles;  // [sequences, n_tiles], addresses
    int64_t sequences, first_tile, n_tiles, heads, dim;
    char *staged_k, *staged_v;
    DType k_type, v_type;
    int32_t k_slot, v_slot;  // bytes of a token of one head
    bool by_head = false;    // a tile holds one head, and the table has a row for each (LayerKv::counts)

    /// Address of a tile; null if there is none.
    TRIREME_GPU char* tile(int64_t sequence, int64_t index) const {
        const int64_t column = index - first_tile;
        if (sequence < 0 || sequence >= sequences || column < 0 || column >= n_tiles) return nullptr;
        return reinterpret_cast<char*>(static_cast<uintptr_t>(tiles(sequence)[column]));
    }
    /// The row of the table that has a head's tiles.
    TRIREME_GPU int64_t row_of(int64_t sequence, int64_t head) const { return by_head ? head : sequence; }
    TRIREME_GPU char* key(char* tile, int64_t head, int64_t slot) const {
        return tile + ((by_head ? 0 : head) * kTile + slot) * k_slot;
    }
    TRIREME_GPU char* value(char* tile, int64_t head, int64_t slot) const {
        return tile + (by_head ? 1 : heads) * kTile * k_slot + ((by_head ? 0 : head) * kTile + slot) * v_slot;
    }
    TRIREME_GPU char* staged_key(int64_t head, int64_t row) const { return staged_k + (head * kStaged + row) * k_slot; }
    TRIREME_GPU char* staged_value(int64_t head, int64_t row) const {
        return staged_v + (head * kStaged + row) * v_slot;
    }
};

TRIREME_GPU float element_of(DType type, const char* row, int64_t i) {
    if (type == DType::kF16) return widen(reinterpret_cast<const f16*>(row)[i]);
    if (type == DType::kBF16) return widen(reinterpret_cast<const bf16*>(row)[i]);
    return reinterpret_cast<const float*>(row)[i];
}

TRIREME_GPU float within_f16(float x) {
    return x > kLargestF16 ? kLargestF16 : x < -kLargestF16 ? -kLargestF16 : x;
}

/// Rounds x to element i of a row; f16 is clamped (kernels/kv.h).
TRIREME_GPU void narrow_to(DType type, float x, char* row, int64_t i) {
    if (type == DType::kF16) {
        narrow(within_f16(x), reinterpret_cast<f16*>(row) + i);
    } else if (type == DType::kBF16) {
        narrow(x, reinterpret_cast<bf16*>(row) + i);
    } else {
        reinterpret_cast<float*>(row)[i] = x;
    }
}

static_assert(8 * sizeof(f16) == sizeof(Bits16) && 8 * sizeof(bf16) == sizeof(Bits16),
              "head_dim is a multiple of 8, so a token of a head is whole Bits16");

/// Copies `bytes` with `threads` threads. A token of a head is a multiple of 16 bytes; tiles and staged rows are
/// aligned accordingly (runtime/buffer.h).
TRIREME_GPU void copy16(int thread, int threads, const char* from, char* to, int64_t bytes) {
    for (int64_t i = thread; i < bytes / 16; i += threads) {
        reinterpret_cast<Bits16*>(to)[i] = reinterpret_cast<const Bits16*>(from)[i];
    }
}

/// Rounds new rows into staged rows, each row into its last ancestor. Grid: rows, then K and V. A block writes the
/// keys, or the values, of all heads of a row: its threads read the row in order.
struct KvStage {
    static constexpr int kThreads = 256;
    struct Args {
        Kv kv;
        Rows<const float> k, v;
        const int32_t *slots, *cached;
        Rows<const int32_t> ancestors;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Kv& kv = a.kv;
        const int64_t row = gpu.block_x(), depth = a.slots[row] - a.cached[row];
        if (a.slots[row] == kPadding) return;
        if (depth < 0 || depth >= kStaged) return gpu.fault(Fault::kRowOrder, a.slots[row], a.cached[row]);
        const int32_t mine = a.ancestors(row)[depth];
        if (mine < 0 || mine >= kStaged) return gpu.fault(Fault::kAncestor, mine, row);
        const bool keys = gpu.block_y() == 0;
        const float* from = keys ? a.k(row) : a.v(row);
        const auto dim = static_cast<int>(kv.dim), n = static_cast<int>(kv.heads) * dim;
        for (int i = gpu.thread(); i < n; i += kThreads) {
            const int head = i / dim;
            narrow_to(keys ? kv.k_type : kv.v_type, from[i],
                      keys ? kv.staged_key(head, mine) : kv.staged_value(head, mine), i - head * dim);
        }
    }
};

/// Rounds new rows into their tiles. Grid: rows, then K and V. A block writes the keys, or the values, of all heads of
/// a row. It alone finds their largest change, so that no two blocks write one element of `change`.
struct KvAppend {
    static constexpr int kThreads = 256;
    static_assert(kThreads % kWarp == 0, "block_max compares whole warps");
    static constexpr int64_t kSharedBytes = kThreads / kWarp * static_cast<int64_t>(sizeof(float));
    struct Args {
        Kv kv;
        Rows<const float> k, v;
        const int32_t *slots, *sequences;
        Rows<float> change = {};  // [row]: change of K and of V; may be none
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Kv& kv = a.kv;
        const int64_t row = gpu.block_x(), slot = a.slots[row];
        const bool keys = gpu.block_y() == 0;
        const float* from = keys ? a.k(row) : a.v(row);
        char* tile = slot < 0 ? nullptr : kv.tile(a.sequences[row], slot / kTile);
        if (tile == nullptr) return gpu.fault(Fault::kTile, slot, a.sequences[row]);
        const int64_t place = slot % kTile;
        const auto dim = static_cast<int>(kv.dim), n = static_cast<int>(kv.heads) * dim;
        const DType type = keys ? kv.k_type : kv.v_type;
        float most = 0;
        for (int i = gpu.thread(); i < n; i += kThreads) {
            const int head = i / dim;
            char* to = keys ? kv.key(tile, head, place) : kv.value(tile, head, place);
            const float was = a.change.data == nullptr ? 0.0f : element_of(type, to, i - head * dim);
            narrow_to(type, from[i], to, i - head * dim);
            if (a.change.data != nullptr) most = fmaxf(most, fabsf(element_of(type, to, i - head * dim) - was));
        }
        if (a.change.data == nullptr) return;
        most = block_max<kThreads>(gpu, most);
        if (gpu.thread() == 0) {
            float& changed = a.change(row)[gpu.block_y()];
            changed = fmaxf(changed, most);
        }
    }
};

/// Copies staged row kept[i, 0] to slot kept[i, 1] of sequence kept[i, 2]. Grid: kept rows, heads, layers: one launch
/// serves all layers. A block copies one head's key and value, a few hundred bytes each, so two warps suffice.
struct KvKeep {
    static constexpr int kThreads = 64;
    static constexpr size_t kLayers = 128;
    struct Layer {
        const int64_t* tiles;
        char *staged_k, *staged_v;
    };
    struct Args {
        Kv kv;  // what layers have in common
        Rows<const int32_t> kept;
        Layer layers[kLayers];
    };
    static_assert(sizeof(Args) <= 4096 - 2 * sizeof(void*), "a kernel's parameters, with two pointers: at most 4 KiB");

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Layer& layer = a.layers[gpu.block_z()];
        Kv kv = a.kv;
        kv.tiles.data = layer.tiles;
        kv.staged_k = layer.staged_k;
        kv.staged_v = layer.staged_v;
        const int32_t* move = a.kept(gpu.block_x());
        const int64_t row = move[0], slot = move[1], head = gpu.block_y(), place = slot % kTile;
        if (row < 0 || row >= kStaged) return gpu.fault(Fault::kKeptSlot, row, slot);
        char* tile = slot < 0 ? nullptr : kv.tile(move[2], slot / kTile);
        if (tile == nullptr) return gpu.fault(Fault::kTile, slot, move[2]);
        copy_words(gpu.thread(), kv.staged_key(head, row), kv.key(tile, head, place), kv.k_slot);
        copy_words(gpu.thread(), kv.staged_value(head, row), kv.value(tile, head, place), kv.v_slot);
    }

  private:
    /// head_dim is a multiple of 8, so a slot is whole words.
    TRIREME_GPU static void copy_words(int thread, const char* from, char* to, int32_t bytes) {
        for (int32_t i = thread; i < bytes / 4; i += kThreads) {
            reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
        }
    }
};

}  // namespace trireme::gpu
