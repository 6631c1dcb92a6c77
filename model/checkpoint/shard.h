#pragma once
/// Shard: the part of every weight that a rank holds. Pure arithmetic: all ranks compute the same, without exchange.

#include <cstdint>
#include <vector>

namespace trireme {

/// Contiguous parts [begin, begin + count) of this rank. Over the ranks, query heads, feed-forward columns and
/// vocabulary rows are each held exactly once; KV heads may be held by several ranks.
struct Shard {
    int rank = 0, ranks = 1;
    int64_t head_begin = 0, n_heads = 0;   // query heads: at least one; counts differ by at most one, first ranks more
    int64_t kv_begin = 0, n_kv_heads = 0;  // every KV head that they read
    int64_t kv_first = 0;                  // the first KV head that no lower rank holds
    int64_t ffn_begin = 0, ffn_dim = 0;    // blocks of 32 columns, divided like heads; the last block may be short.
                                           // 0 columns if there are fewer blocks than ranks
    int64_t vocab_begin = 0, vocab = 0;    // rows of lm_head held: vocab_part, fewer or none on the last ranks
    int64_t vocab_part = 0;                // rows of a part, padded to 32: equal on all ranks, so logits are gathered
    std::vector<int32_t> kv_of_head;       // local query head -> local KV head
};

/// The shard of `rank` for the model's query heads, KV heads, feed-forward columns and vocabulary; n_kv_heads divides
/// n_heads. Errors: Exit::kConfig with more ranks than query heads.
Shard make_shard(int64_t n_heads, int64_t n_kv_heads, int64_t ffn_dim, int64_t vocab, int rank, int ranks);

struct LlamaConfig;
/// Like the above, with the numbers of `config`.
Shard make_shard(const LlamaConfig& config, int rank, int ranks);

}  // namespace trireme
