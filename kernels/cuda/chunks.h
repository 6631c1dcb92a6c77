#pragma once
/// Retrieval on a GPU: means of chunks of keys, which chunks a query picks, and gathering them (kernels/chunks.h).

#include "kernels/chunks.h"
#include "kernels/cuda/kv.h"
#include "kernels/law.h"

namespace trireme::gpu {

/// The mean key of a chunk. Grid: the chunks of the tiles, KV heads.
struct ChunkMeans {
    static constexpr int kThreads = 128;
    struct Args {
        Kv kv;
        char* means;  // [heads, chunks, dim] of the keys' type
        int64_t chunks, sequence, first_tile, chunk;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Kv& kv = a.kv;
        const int64_t token = a.first_tile * kTile + gpu.block_x() * a.chunk, head = gpu.block_y();
        char* tile = kv.tile(a.sequence, token / kTile);
        if (tile == nullptr) return gpu.fault(Fault::kTile, token, a.sequence);
        char* out = a.means + (head * a.chunks + token / a.chunk) * kv.k_slot;
        const float scale = 1.0f / static_cast<float>(a.chunk);
        for (int64_t i = gpu.thread(); i < kv.dim; i += kThreads) {
            float sum = 0;
            for (int64_t t = 0; t < a.chunk; ++t) sum += at(kv.k_type, kv.key(tile, head, token % kTile + t), i);
            narrow_to(kv.k_type, sum * scale, out, i);
        }
    }

  private:
    TRIREME_GPU static float at(DType type, const char* row, int64_t i) {
        if (type == DType::kF16) return widen(reinterpret_cast<const f16*>(row)[i]);
        if (type == DType::kBF16) return widen(reinterpret_cast<const bf16*>(row)[i]);
        return reinterpret_cast<const float*>(row)[i];
    }
};

/// The order of chunks by the sum of a group's queries: a warp a chunk. Grid: runs of kChunks chunks, KV heads.
template <class T>
struct ScoreChunks {
    static constexpr int kThreads = 256, kChunks = 64;
    static constexpr int64_t kSharedBytes = kMostHeadDim * sizeof(float);
    struct Args {
        uint64_t* keys;  // [heads, chunks]
        const T* means;  // [heads, chunks, dim]
        const float* q;  // [query heads, dim]
        const int32_t* kv_of_head;
        int64_t query_heads, chunks, dim;
        const ChunkPick* pick;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t first = gpu.block_x() * kChunks, head = gpu.block_y();
        const int64_t candidates = a.pick->tokens == 0 ? 0 : a.pick->candidates;
        if (first >= candidates) return;
        float* query = static_cast<float*>(gpu.shared());
        for (int64_t i = gpu.thread(); i < a.dim; i += kThreads) {
            float sum = 0;
            for (int64_t h = 0; h < a.query_heads; ++h) {
                if (a.kv_of_head[h] == head) sum += a.q[h * a.dim + i];
            }
            query[i] = sum;
        }
        gpu.sync();
        const int64_t last = min_of(first + kChunks, candidates);
        for (int64_t c = first + gpu.thread() / kWarp; c < last; c += kThreads / kWarp) {
            const T* mean = a.means + (head * a.chunks + c) * a.dim;
            float score = 0;
            for (int64_t i = gpu.thread() % kWarp; i < a.dim; i += kWarp) {
                score = fmaf(query[i], widen(mean[i]), score);
            }
            score = warp_sum(gpu, score);
            // The first chunk always.
            if (gpu.thread() % kWarp == 0) a.keys[head * a.chunks + c] = c == 0 ? ~uint64_t{0} : order_key(score, c);
        }
    }
};

/// The chunks with the largest keys, numbered in their order. The least key of them is found by digits of 8 bits, from
/// counts alone. Grid: KV heads.
struct PlaceChunks {
    static constexpr int kThreads = 512, kDigits = 256;
    struct Shared {
        uint32_t counts[kDigits], of_thread[kThreads];
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        int32_t* places;       // [heads, chunks]
        const uint64_t* keys;  // [heads, chunks]
        int64_t chunks;
        const ChunkPick* pick;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t n = a.pick->candidates, picked = a.pick->picked;
        if (a.pick->tokens == 0 || n == 0) return;
        if (n > a.chunks || picked < 1 || picked > n) return gpu.fault(Fault::kPick, picked, n);
        Shared& shared = *static_cast<Shared*>(gpu.shared());
        const uint64_t* keys = a.keys + gpu.block_x() * a.chunks;
        int32_t* places = a.places + gpu.block_x() * a.chunks;
        const uint64_t least = picked_key(gpu, shared, keys, n, picked);

        // A thread has consecutive chunks.
        const int64_t begin = gpu.thread() * n / kThreads, end = (gpu.thread() + 1) * n / kThreads;
        uint32_t mine = 0;
        for (int64_t c = begin; c < end; ++c) mine += keys[c] >= least;
        shared.of_thread[gpu.thread()] = mine;
        gpu.sync();
        int32_t next = 0;
        for (int t = 0; t < gpu.thread(); ++t) next += static_cast<int32_t>(shared.of_thread[t]);
        for (int64_t c = begin; c < end; ++c) places[c] = keys[c] >= least ? next++ : kNotPicked;
    }

  private:
    /// The picked-th largest key; no two are equal.
    template <class Gpu>
    TRIREME_GPU static uint64_t picked_key(Gpu& gpu, Shared& shared, const uint64_t* keys, int64_t n, int64_t picked) {
        uint64_t prefix = 0;
        auto wanted = static_cast<uint32_t>(picked);
        for (int shift = 64 - 8; shift >= 0; shift -= 8) {
            for (int d = gpu.thread(); d < kDigits; d += kThreads) shared.counts[d] = 0;
            gpu.sync();
            for (int64_t c = gpu.thread(); c < n; c += kThreads) {
                const bool same = shift == 64 - 8 || keys[c] >> (shift + 8) == prefix;
                if (same) gpu.fetch_add(&shared.counts[keys[c] >> shift & (kDigits - 1)], 1);
            }
            gpu.sync();
            int digit = kDigits - 1;
            while (shared.counts[digit] < wanted) wanted -= shared.counts[digit--];
            prefix = prefix << 8 | static_cast<uint64_t>(digit);
            gpu.sync();  // everybody has read the counts
        }
        return prefix;
    }
};

/// Chunks into the tiles that a level attends. Grid: the chunks of the tiles at hand, KV heads.
struct GatherChunks {
    static constexpr int kThreads = 128, kBlocksOfSm = 8;
    struct Args {
        Kv to, from;
        const int32_t* places;  // [heads, chunks]
        int64_t chunks, first_chunk, chunk;
        const ChunkPick* pick;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const ChunkPick& p = *a.pick;
        const int64_t c = a.first_chunk + gpu.block_x(), head = gpu.block_y(), token = c * a.chunk;
        if (token >= p.tokens) return;
        const int64_t place = c < p.candidates ? a.places[head * a.chunks + c] : p.picked + c - p.candidates;
        if (place == kNotPicked) return;
        const int64_t slot = place * a.chunk, n = min_of(a.chunk, p.tokens - token);
        char *in = a.from.tile(0, token / kTile), *out = a.to.tile(0, slot / kTile);
        if (in == nullptr || out == nullptr) return gpu.fault(Fault::kTile, in == nullptr ? token : slot, 0);
        copy(gpu, a.from.key(in, head, token % kTile), a.to.key(out, head, slot % kTile), n * a.to.k_slot);
        copy(gpu, a.from.value(in, head, token % kTile), a.to.value(out, head, slot % kTile), n * a.to.v_slot);
    }

  private:
    /// A token of a head is a multiple of 16 bytes; tiles are aligned so (runtime/buffer.h).
    template <class Gpu>
    TRIREME_GPU static void copy(Gpu& gpu, const char* from, char* to, int64_t bytes) {
        for (int64_t i = gpu.thread(); i < bytes / 16; i += kThreads) {
            reinterpret_cast<Bits16*>(to)[i] = reinterpret_cast<const Bits16*>(from)[i];
        }
    }
};

}  // namespace trireme::gpu
