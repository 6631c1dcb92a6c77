#pragma once
/// Kv: addresses of keys and values on a GPU; and the kernels that write them.

#include <type_traits>

#include "kernels/cuda/fault.h"
#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

inline constexpr int kTile = 256, kStaged = 64;  // kTileTokens, kMaxRows of kernels/kv.h
inline constexpr int32_t kPadding = -1;          // kPadding of kernels/kv.h
inline constexpr float kLargestF16 = 65504;      // kMostF16 of kernels/kv.h
inline constexpr int kQuant = 32;                // kQuantBlock of kernels/kv.h

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

/// The scale of element i of a q8_0 row of `dim` elements. Rows are whole words.
TRIREME_GPU f16* scale_at(const char* row, int64_t dim, int64_t i) {
    return reinterpret_cast<f16*>(const_cast<char*>(row) + dim) + i / kQuant;
}

/// Element i of a row of `dim`, whose type is known at compile time, or not.
template <class T>
TRIREME_GPU float element_as(const char* row, int64_t dim, int64_t i) {
    if constexpr (std::is_same_v<T, q8_0>) {
        return static_cast<float>(reinterpret_cast<const int8_t*>(row)[i]) * widen(*scale_at(row, dim, i));
    } else {
        return widen(reinterpret_cast<const T*>(row)[i]);
    }
}
TRIREME_GPU float plain_element_of(DType type, const char* row, int64_t i) {
    if (type == DType::kF16) return element_as<f16>(row, 0, i);
    if (type == DType::kBF16) return element_as<bf16>(row, 0, i);
    return element_as<float>(row, 0, i);
}
TRIREME_GPU float element_of(DType type, const char* row, int64_t dim, int64_t i) {
    return type == DType::kQ8_0 ? element_as<q8_0>(row, dim, i) : plain_element_of(type, row, i);
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

/// Like narrow_to, for q8_0 too (kernels/kv.h); returns the rounded element. A warp rounds kQuant consecutive elements:
/// lane i % 32 has element i.
template <class Gpu>
TRIREME_GPU float narrow_in_row(Gpu& gpu, DType type, float x, char* row, int64_t dim, int64_t i) {
    if (type != DType::kQ8_0) {
        narrow_to(type, x, row, i);
        return element_of(type, row, dim, i);
    }
    static_assert(kQuant == kWarp);
    const bool is_nan = x != x;
    const float v = fminf(fmaxf(x, -127 * kLargestF16), 127 * kLargestF16);
    const float scale = warp_max(gpu, fabsf(v)) / 127, nan = warp_max(gpu, is_nan ? 1.0f : 0.0f);
    f16 stored;
    narrow(scale, &stored);
    const float code = is_nan || stored.bits == 0 ? 0.0f : rintf(v * (1 / scale));
    if (nan != 0) stored.bits = 0x7e00;
    row[i] = static_cast<char>(static_cast<int>(code));
    f16* at = scale_at(row, dim, i);
    if (i % kQuant == 0) {
        *at = stored;
        if (i + kQuant == dim && dim % (2 * kQuant) != 0) at[1].bits = 0;  // the row's padding
    }
    return code * widen(stored);
}

/// Copies `bytes`, whole words, with `threads` threads: 16 bytes at once where both addresses allow it.
TRIREME_GPU void copy_words(int thread, int threads, const char* from, char* to, int64_t bytes) {
    const auto bits =
        reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(bytes);
    if (bits % 16 == 0) {
        for (int64_t i = thread; i < bytes / 16; i += threads) {
            reinterpret_cast<Bits16*>(to)[i] = reinterpret_cast<const Bits16*>(from)[i];
        }
        return;
    }
    for (int64_t i = thread; i < bytes / 4; i += threads) {
        reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
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
            narrow_in_row(gpu, keys ? kv.k_type : kv.v_type, from[i],
                          keys ? kv.staged_key(head, mine) : kv.staged_value(head, mine), dim, i - head * dim);
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
        const bool shared_scales = a.change.data != nullptr && type == DType::kQ8_0;
        float most = 0;
        for (int first = 0; first < n; first += kThreads) {
            const int i = first + gpu.thread(), head = i / dim;
            char* to = i >= n ? nullptr : keys ? kv.key(tile, head, place) : kv.value(tile, head, place);
            const float was = i >= n || a.change.data == nullptr ? 0.0f : element_of(type, to, dim, i - head * dim);
            if (shared_scales) gpu.sync();  // all have read the scales that are overwritten next
            if (i >= n) continue;
            const float is = narrow_in_row(gpu, type, from[i], to, dim, i - head * dim);
            if (a.change.data != nullptr) most = fmaxf(most, fabsf(is - was));
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
        copy_words(gpu.thread(), kThreads, kv.staged_key(head, row), kv.key(tile, head, place), kv.k_slot);
        copy_words(gpu.thread(), kThreads, kv.staged_value(head, row), kv.value(tile, head, place), kv.v_slot);
    }
};

}  // namespace trireme::gpu
