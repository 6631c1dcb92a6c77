#pragma once
/// Memory traffic of each operation: the bytes that it must move at least. Traces and benchmarks divide them by time.

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"

namespace trireme::bytes {

inline size_t embed(const Tensor& out, const Tensor& table) {
    return out.bytes() + static_cast<size_t>(out.rows() * out.cols()) * size_of(table.dtype());
}
inline size_t rmsnorm(const Tensor& x) {
    return 2 * x.bytes();
}
inline size_t matmul(const Tensor& out, const Tensor& x, const Tensor& w) {
    return w.bytes() + x.bytes() + out.bytes();
}
/// Rows of a matrix in blocks.
inline size_t matmul(const Tensor& out, const Tensor& x, const WeightRows& w) {
    return static_cast<size_t>(w.rows * w.stride) + x.bytes() + out.bytes();
}
inline size_t rope(const Tensor& x) {
    return 2 * x.bytes();
}
/// Keys and values of `rows` tokens, in the cache's types.
inline size_t kv_write(const LayerKv& kv, int64_t rows) {
    return static_cast<size_t>(rows) * kv.layout.tile_bytes() / static_cast<size_t>(kTileTokens);
}
inline size_t kv_keep(std::span<const LayerKv> layers, const Tensor& kept) {
    return layers.size() * kv_write(layers[0], kept.rows());
}
/// The keys and values of every slot of these tiles, read once.
inline size_t attention(const LayerKv& kv, const RowsView& rows, const TileRange& part) {
    const int64_t tokens = part.end > rows.max_slots / kTileTokens ? rows.max_slots : part.end * kTileTokens;
    return static_cast<size_t>(std::max(int64_t{0}, tokens - part.first * kTileTokens)) * kv.layout.tile_bytes() /
           static_cast<size_t>(kTileTokens);
}
inline size_t swiglu(const Tensor& gate_up) {
    return gate_up.bytes() + gate_up.bytes() / 2;
}
inline size_t add(const Tensor& x) {
    return 3 * x.bytes();
}
/// A rejection reads two rows of logits once: the verifier's and the proposal's.
inline size_t accept(const Tensor& logits) {
    return 2 * logits.bytes() / static_cast<size_t>(logits.dim(1));
}
inline size_t sample(const Tensor& logits) {
    return logits.bytes();
}
inline size_t gather_rows(const Tensor& out) {
    return 2 * out.bytes();
}

inline size_t chunk_means(const LayerKv& kv, const TileRange& tiles) {
    return static_cast<size_t>(tiles.end - tiles.first) * kv.layout.k_bytes();
}

}  // namespace trireme::bytes
