#include "kernels/retrieval_kernels.h"

#include "kernels/operand_checks.h"

namespace trireme {

namespace {

void check_chunk(const char* op, int64_t chunk) {
    check(chunk >= 1 && kTileTokens % chunk == 0, "{}: chunks of {} tokens, want a divisor of {}", op, chunk,
          kTileTokens);
}

void check_pick(const char* op, const Tensor& places, const Tensor& pick, int64_t kv_heads) {
    check_rank(op, "places", places, 2);
    check_operand(op, "places", places, DType::kI32, Shape{kv_heads, places.dim(1)});
    check_operand(op, "pick", pick, DType::kI32, Shape{kChunkPickWords});
    check(places.contiguous(), "{}: places have a row stride of {}", op, places.stride());
}

}  // namespace

void RetrievalKernels::chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                                   int64_t chunk) {
    check_kv("chunk_means", kv);
    check_chunk("chunk_means", chunk);
    check_rank("chunk_means", "means", means, 3);
    check_operand("chunk_means", "means", means, mean_type(kv.layout.k_type),
                  Shape{kv.layout.kv_heads, means.dim(1), kv.layout.head_dim});
    check(means.contiguous() && kv.layout.head_dim <= kMostHeadDim && tiles.first >= 0 && tiles.first <= tiles.end &&
              tiles.end <= means.dim(1) * chunk / kTileTokens,
          "chunk_means: tiles [{}, {}) into means {}", tiles.first, tiles.end, means.shape());
    if (tiles.first < tiles.end) do_chunk_means(means, kv, sequence, tiles, chunk);
}

void RetrievalKernels::choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                                     const Tensor& kv_of_head, const Tensor& pick) {
    check_rank("choose_chunks", "means", means, 3);
    check_weight_type("choose_chunks", "means", means);
    check_rank("choose_chunks", "kv_of_head", kv_of_head, 1);
    const int64_t heads = means.dim(0), chunks = means.dim(1), dim = means.dim(2);
    check_pick("choose_chunks", places, pick, heads);
    check_operand("choose_chunks", "places", places, DType::kI32, Shape{heads, chunks});
    check_operand("choose_chunks", "keys", keys, DType::kI64, Shape{heads, chunks});
    check_operand("choose_chunks", "q", q, DType::kF32, Shape{1, kv_of_head.rows() * dim});
    check_operand("choose_chunks", "kv_of_head", kv_of_head, DType::kI32, Shape{kv_of_head.rows()});
    check(means.contiguous() && keys.contiguous() && dim <= kMostHeadDim, "choose_chunks: means {}, keys {}",
          means.shape(), keys.shape());
    do_choose_chunks(places, keys, means, q, kv_of_head, pick);
}

void RetrievalKernels::gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                                     int64_t chunk, const TileRange& part) {
    check_kv("gather_chunks", to);
    check_kv("gather_chunks", from);
    check_chunk("gather_chunks", chunk);
    check(to.layout == from.layout, "gather_chunks: tiles of different layouts");
    check_pick("gather_chunks", places, pick, to.layout.kv_heads);
    do_gather_chunks(to, from, places, pick, chunk, part);
}

}  // namespace trireme
