#pragma once
/// Which part of every weight a rank holds. Pure arithmetic: the same on every rank, nothing is exchanged.

#include <cstdint>
#include <vector>

namespace trireme {

/// Contiguous parts [begin, begin + count) of this rank. Over the ranks, query heads, feed-forward columns and
/// vocabulary rows are each held exactly once; KV heads may be held by several ranks.
struct Shard {
    int rank = 0, ranks = 1;
    int64_t head_begin = 0, n_heads = 0;   // query heads: at least one; counts differ by at most one, first ranks more
    int64_t kv_begin = 0, n_kv_heads = 0;  // every KV head those read
    int64_t ffn_begin = 0, ffn_dim = 0;    // blocks of 32 columns, dealt like heads; the last block may be short.
                                           // 0 columns when there are fewer blocks than ranks
    int64_t vocab_begin = 0, vocab = 0;    // rows of lm_head held: vocab_part, fewer or none on the last ranks
    int64_t vocab_part = 0;                // rows of a part, padded to 32: equal on all ranks, so logits are gathered
    std::vector<int32_t> kv_of_head;       // local query head -> local KV head
};

/// The shard of `rank` for the model's query heads, KV heads, feed-forward columns and vocabulary; n_kv_heads divides
/// n_heads. Errors: Exit::kConfig with more ranks than query heads.
Shard make_shard(int64_t n_heads, int64_t n_kv_heads, int64_t ffn_dim, int64_t vocab, int rank, int ranks);

struct LlamaConfig;
/// The same for a model's config.
Shard make_shard(const LlamaConfig& config, int rank, int ranks);

}  // namespace trireme
