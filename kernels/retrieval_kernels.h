#pragma once
/// RetrievalKernels: choose chunks of a KV cache by their mean keys, and copy them. kernels.h says what all operations
/// have in common.

#include <cstdint>

#include "kernels/chunks.h"
#include "kernels/kv.h"
#include "runtime/tensor.h"

namespace trireme {

class RetrievalKernels {
  public:
    virtual ~RetrievalKernels() = default;

    /// means[h, c] = the mean key of chunk c of KV head h, rounded to the keys' type, for every chunk of these tiles of
    /// the sequence. means [kv_heads, chunks, head_dim] contiguous; a chunk has `chunk` tokens, a divisor of
    /// kTileTokens.
    void chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles, int64_t chunk);
    /// Picks chunks by a query: KV head h picks the first candidate, and the candidates with the largest sum of q .
    /// means[h, c] over the head's queries, the earlier one if sums are equal. places[h, c] = index of chunk c among
    /// the picked chunks, in order, or kNotPicked.  places i32 [kv_heads, chunks], means as above; keys i64
    /// [kv_heads, chunks] is scratch; q f32 [1, heads * head_dim]; pick i32 [kChunkPickWords] (ChunkPick).
    void choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                       const Tensor& kv_of_head, const Tensor& pick);
    /// Copies chunks into consecutive slots of `to`: the picked candidates in order, then all chunks after the
    /// candidates. Both are sequence 0. Only chunks in tiles `part` of `from`, which must be resident, are copied.
    void gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick, int64_t chunk,
                       const TileRange& part = {});

  protected:
    RetrievalKernels() = default;

  private:
    virtual void do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                                int64_t chunk) = 0;
    virtual void do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                                  const Tensor& kv_of_head, const Tensor& pick) = 0;
    virtual void do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                                  int64_t chunk, const TileRange& part) = 0;
};

}  // namespace trireme
