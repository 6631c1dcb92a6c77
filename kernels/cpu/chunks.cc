/// Retrieval on the CPU: means of chunks of keys, picking chunks by a query, and gathering them.

#include <algorithm>
#include <cstring>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/chunks.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kv_access.h"
#include "kernels/cpu/pack-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Mean key of each chunk of one tile of one head; keys are added in order.
void tile_means(DType type, const KvAccess& access, char* tile, int64_t head, int64_t chunk, void* out, int64_t dim) {
    const F d;
    const Vf scale = hn::Set(d, 1.0F / static_cast<float>(chunk));
    const int64_t padded = (dim + 15) / 16 * 16;
    with_kv_type(type, [&](auto t) HWY_ATTR {
        using T = decltype(t);
        using Mean = std::conditional_t<std::is_same_v<T, q8_0>, f16, T>;  // mean_type()
        using Element = typename KeyRows<T>::Element;
        static_assert(kMostHeadDim % 16 == 0, "buffers have whole vectors of every target");
        HWY_ALIGN Element rows[kKeyBlock * kMostHeadDim] = {};
        HWY_ALIGN float sum[kMostHeadDim];
        KeyRows<T> keys(access.key_blocks<T>(tile, head), dim, rows, padded);
        auto* to = static_cast<Mean*>(out);
        for (int64_t first = 0; first < kTileTokens; first += chunk, to += dim) {
            std::fill_n(sum, padded, 0.0F);
            for (int64_t i = first; i < first + chunk; ++i) {
                const Element* key = keys.row(i);
                for (int64_t e = 0; e < padded; e += kLanes) {
                    hn::Store(hn::Add(hn::Load(d, sum + e), load(d, key + e)), d, sum + e);
                }
            }
            for (int64_t e = 0; e < padded; e += kLanes) {
                hn::Store(hn::Mul(hn::Load(d, sum + e), scale), d, sum + e);
            }
            if constexpr (std::is_same_v<Mean, f16>) {
                saturate_row(sum, to, dim);
            } else {
                round_row(sum, to, dim);
            }
        }
    });
}

/// keys[c] = sort key of chunk c, by q . means[c].
void score_chunks(DType type, const float* q, const void* means, int64_t chunks, int64_t dim, uint64_t* keys) {
    const F d;
    with_type(type, [&](auto t) HWY_ATTR {
        const auto* mean = static_cast<const decltype(t)*>(means);
        for (int64_t c = 0; c < chunks; ++c, mean += dim) {
            Vf sum = hn::Zero(d);
            int64_t i = 0;
            for (; i + kLanes <= dim; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, q + i), load(d, mean + i), sum);
            if (i < dim) sum = hn::MulAdd(load_n(d, q + i, dim - i), load_n(d, mean + i, dim - i), sum);
            keys[c] = order_key(sum_lanes(sum), c);
        }
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(tile_means);
HWY_EXPORT(score_chunks);

void chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles, int64_t chunk) {
    const KvAccess access(kv);
    const KvLayout& l = kv.layout;
    const int64_t a_tile = kTileTokens / chunk, heads = l.kv_heads, dim = l.head_dim;
    for (int64_t t = tiles.first; t < tiles.end; ++t) access.check_tile(sequence, t * kTileTokens, "chunk_means");
    for_rows((tiles.end - tiles.first) * heads, kTileTokens * dim, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t tile = tiles.first + i / heads, head = i % heads;
            char* out = static_cast<char*>(means.data()) +
                        static_cast<size_t>((head * means.dim(1) + tile * a_tile) * dim) * size_of(means.dtype());
            HWY_DYNAMIC_DISPATCH(tile_means)(l.k_type, access, access.tile(sequence, tile), head, chunk, out, dim);
        }
    });
}

namespace {

/// Writes the sum of the queries that read this KV head to `out`.
void group_query(const Tensor& q, const Matrix<const int32_t>& kv_of_head, int64_t head, int64_t dim, float* out) {
    const auto* row = static_cast<const float*>(q.data());
    std::fill_n(out, dim, 0.0F);
    for (int64_t h = 0; h < kv_of_head.rows; ++h) {
        if (*kv_of_head.row(h) != head) continue;
        for (int64_t i = 0; i < dim; ++i) out[i] += row[h * dim + i];
    }
}

/// Computes places [chunks] of one head from keys [candidates], which it reorders.
void place_chunks(const ChunkPick& pick, uint64_t* keys, int32_t* places) {
    keys[0] = UINT64_MAX;  // the first chunk is always picked
    std::nth_element(keys, keys + (pick.picked - 1), keys + pick.candidates, std::greater<>());
    std::fill_n(places, pick.candidates, kNotPicked);
    for (int32_t i = 0; i < pick.picked; ++i) {
        places[keys[i] == UINT64_MAX ? 0 : ~static_cast<uint32_t>(keys[i])] = 0;
    }
    int32_t next = 0;
    for (int32_t c = 0; c < pick.candidates; ++c) {
        if (places[c] != kNotPicked) places[c] = next++;
    }
}

}  // namespace

void choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                   const Tensor& kv_of_head, const Tensor& pick) {
    const ChunkPick& p = *static_cast<const ChunkPick*>(pick.data());
    const int64_t heads = means.dim(0), chunks = means.dim(1), dim = means.dim(2);
    const DType type = means.dtype();
    if (p.tokens == 0 || p.candidates == 0) return;
    check(p.candidates <= chunks && p.picked >= 1 && p.picked <= p.candidates,
          "choose_chunks: {} of {} chunks, there are {}", p.picked, p.candidates, chunks);
    for_rows(heads, p.candidates * dim, [&](int64_t begin, int64_t end) {
        for (int64_t h = begin; h < end; ++h) {
            float query[kMostHeadDim];
            group_query(q, kv_of_head.as<const int32_t>(), h, dim, query);
            auto* order = static_cast<uint64_t*>(keys.data()) + h * chunks;
            const char* mean =
                static_cast<const char*>(means.data()) + static_cast<size_t>(h * chunks * dim) * size_of(type);
            HWY_DYNAMIC_DISPATCH(score_chunks)(type, query, mean, p.candidates, dim, order);
            place_chunks(p, order, static_cast<int32_t*>(places.data()) + h * chunks);
        }
    });
}

namespace {

constexpr int64_t kTokensAhead = 32;  // tokens of picked chunks that are prefetched before they are copied
constexpr int64_t kRunTokens = 512;   // tokens of the sequence that a thread takes at a time

/// A picked chunk: its first token in the sequence, and its first slot.
struct Picked {
    int64_t token, slot;
};

/// Prefetches the memory that a chunk's keys and values are read from, or will be written to.
void fetch_chunk(const KvAccess& kv, int64_t token, int64_t head, int64_t chunk) {
    constexpr size_t kLine = 64;
    const auto fetch = [](const char* from, size_t bytes) {
        for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i, /*write=*/0, /*locality=*/2);
    };
    const int64_t i = token % kTileTokens;
    char* tile = kv.tile(0, token / kTileTokens);
    const KeyBlocks keys = kv.keys(tile, head);
    fetch(keys.at(i / kKeyBlock * kKeyBlock), keys.bytes_of(chunk));
    fetch(kv.value(tile, head, i), static_cast<size_t>(chunk) * kv.value_bytes());
}

}  // namespace

void gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick, int64_t chunk,
                   const TileRange& part) {
    const ChunkPick& p = *static_cast<const ChunkPick*>(pick.data());
    const KvAccess source(from), target(to);
    const int64_t a_tile = kTileTokens / chunk, heads = to.layout.kv_heads;
    const int64_t all = (p.tokens + chunk - 1) / chunk;
    const int64_t first = std::min(part.first * a_tile, all);
    const int64_t last = part.end == kEveryTile ? all : std::min(part.end * a_tile, all);
    const auto copy = [&](const Picked& c, int64_t h) {
        char *out = target.tile(0, c.slot / kTileTokens), *in = source.tile(0, c.token / kTileTokens);
        const int64_t i = c.slot % kTileTokens, j = c.token % kTileTokens, n = std::min(chunk, p.tokens - c.token);
        target.keys(out, h).copy(i, source.keys(in, h), j, n);
        std::memcpy(target.value(out, h, i), source.value(in, h, j), static_cast<size_t>(n) * source.value_bytes());
    };
    // Few chunks are picked, unevenly over the sequence, so threads take short runs one by one, not equal shares.
    const int64_t ahead = std::max<int64_t>(1, kTokensAhead / chunk);
    const int64_t run = std::max<int64_t>(1, kRunTokens / chunk), runs = (last - first + run - 1) / run;
    for_items(runs * heads, run * chunk * to.layout.head_dim, [&](int64_t item, int) {
        const int64_t h = item % heads, begin = first + item / heads * run, end = std::min(last, begin + run);
        Picked picked[kRunTokens];
        int64_t n = 0;
        for (int64_t c = begin; c < end; ++c) {
            const int64_t place = c < p.candidates ? places.as<const int32_t>()(h, c) : p.picked + c - p.candidates;
            if (place == kNotPicked) continue;
            source.check_tile(0, c * chunk, "gather_chunks");
            target.check_tile(0, place * chunk, "gather_chunks");
            picked[n++] = {.token = c * chunk, .slot = place * chunk};
        }
        for (int64_t i = 0; i < n + ahead; ++i) {
            if (i < n) {
                fetch_chunk(source, picked[i].token, h, chunk);
                fetch_chunk(target, picked[i].slot, h, chunk);
            }
            if (i >= ahead) copy(picked[i - ahead], h);
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
