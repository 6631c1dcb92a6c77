#pragma once
/// Retrieval on a GPU: means of chunks of keys, picking chunks by a query, and gathering them (kernels/chunks.h).

#include "kernels/chunks.h"
#include "kernels/cuda/kv.h"
#include "kernels/cuda/select.h"
#include "kernels/distribution.h"

namespace trireme::gpu {

/// Computes mean keys. Grid: the chunks of the tiles, KV heads. A block has a chunk; a thread has every kThreads-th
/// element of the mean. So it adds the chunk's keys in order, without exchange.
struct ChunkMeans {
    static constexpr int kThreads = 128;
    struct Args {
        Kv kv;
        char* means;  // [heads, chunks, dim] of type
        DType type;   // mean_type() of kernels/kv.h
        int64_t chunks, sequence, first_tile, chunk;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Kv& kv = a.kv;
        const int64_t token = a.first_tile * kTile + gpu.block_x() * a.chunk, head = gpu.block_y();
        char* tile = kv.tile(a.sequence, token / kTile);
        if (tile == nullptr) return gpu.fault(Fault::kTile, token, a.sequence);
        const int64_t mean = kv.dim * static_cast<int64_t>(size_of(a.type));  // bytes
        char* out = a.means + (head * a.chunks + token / a.chunk) * mean;
        const float scale = 1.0f / static_cast<float>(a.chunk);
        for (int64_t i = gpu.thread(); i < kv.dim; i += kThreads) {
            float sum = 0;
            for (int64_t t = 0; t < a.chunk; ++t) {
                sum += element_of(kv.k_type, kv.key(tile, head, token % kTile + t), kv.dim, i);
            }
            narrow_to(a.type, sum * scale, out, i);
        }
    }
};

/// Computes sort keys of chunks, by the sum of a group's queries. Grid: runs of kChunks chunks, KV heads. A block adds
/// the queries once for its chunks. A warp scores a chunk, because a mean key is consecutive elements.
template <class T>
struct ScoreChunks {
    static constexpr int kThreads = 256, kChunks = 64;
    static_assert(kThreads % kWarp == 0 && kChunks % (kThreads / kWarp) == 0, "warps have equal numbers of chunks");
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
            // The first chunk is always picked.
            if (gpu.thread() % kWarp == 0) a.keys[head * a.chunks + c] = c == 0 ? ~uint64_t{0} : order_key(score, c);
        }
    }
};

/// Picks the chunks with the largest keys, and numbers them in order. Grid: KV heads. A block has a head, because its
/// chunks compete. A thread numbers consecutive chunks, so that it continues the count of the threads before.
struct PlaceChunks {
    static constexpr int kThreads = 512;
    using Shared = SelectShared<kThreads>;
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
        const uint64_t least = nth_largest(
            gpu, shared, [&](int64_t i) { return keys[i]; }, n, picked);
        const Piece mine = piece_of<kThreads>(gpu.thread(), n);
        uint32_t stay = 0;
        for (int64_t c = mine.begin; c < mine.end; ++c) stay += keys[c] >= least;
        auto next = static_cast<int32_t>(count_before(gpu, shared, stay).before);
        for (int64_t c = mine.begin; c < mine.end; ++c) places[c] = keys[c] >= least ? next++ : kNotPicked;
    }
};

/// Copies chunks into tiles that a level attends. Grid: chunks of the resident tiles, KV heads. A block copies a chunk
/// of a head, which is consecutive bytes; blocks of chunks that are not picked exit at once.
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
        const int thread = gpu.thread();
        copy_words(thread, kThreads, a.from.key(in, head, token % kTile), a.to.key(out, head, slot % kTile),
                   n * a.to.k_slot);
        copy_words(thread, kThreads, a.from.value(in, head, token % kTile), a.to.value(out, head, slot % kTile),
                   n * a.to.v_slot);
    }
};

}  // namespace trireme::gpu
