#include "model/checkpoint/shard.h"

#include <algorithm>

#include "model/checkpoint/config.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr int64_t kFfnBlock = 32;    // columns: a whole number of vector registers and of cache lines in every type
constexpr int64_t kVocabBlock = 32;  // rows

int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

struct RankPart {
    int64_t begin, count;
};

/// Divides n items among `ranks` ranks in contiguous runs; the first n % ranks of them get one more.
RankPart deal(int64_t n, int rank, int ranks) {
    const int64_t base = n / ranks, extra = n % ranks;
    return {rank * base + std::min<int64_t>(rank, extra), base + (rank < extra ? 1 : 0)};
}

}  // namespace

Shard make_shard(int64_t n_heads, int64_t n_kv_heads, int64_t ffn_dim, int64_t vocab, int rank, int ranks) {
    check(rank >= 0 && rank < ranks, "shard: rank {} of {}", rank, ranks);
    check(n_kv_heads > 0 && n_heads > 0 && n_heads % n_kv_heads == 0, "shard: {} query heads on {} KV heads", n_heads,
          n_kv_heads);
    check(ffn_dim > 0 && vocab > 0, "shard: {} feed-forward columns, {} vocabulary rows", ffn_dim, vocab);
    require(ranks <= n_heads, Exit::kConfig, "{} ranks, but the model has only {} query head{}: use at most {}", ranks,
            n_heads, n_heads == 1 ? "" : "s", n_heads);

    Shard s;
    s.rank = rank;
    s.ranks = ranks;

    const RankPart heads = deal(n_heads, rank, ranks);
    s.head_begin = heads.begin;
    s.n_heads = heads.count;

    const int64_t group = n_heads / n_kv_heads;  // query heads that read one KV head
    s.kv_begin = heads.begin / group;
    s.n_kv_heads = (heads.begin + heads.count - 1) / group + 1 - s.kv_begin;
    for (int64_t h = 0; h < heads.count; ++h) {
        s.kv_of_head.push_back(static_cast<int32_t>((heads.begin + h) / group - s.kv_begin));
    }

    const RankPart blocks = deal(ceil_div(ffn_dim, kFfnBlock), rank, ranks);
    s.ffn_begin = std::min(blocks.begin * kFfnBlock, ffn_dim);
    s.ffn_dim = std::min((blocks.begin + blocks.count) * kFfnBlock, ffn_dim) - s.ffn_begin;

    s.kv_first = ceil_div(s.head_begin, n_heads / n_kv_heads);

    s.vocab_part = ceil_div(ceil_div(vocab, ranks), kVocabBlock) * kVocabBlock;
    s.vocab_begin = std::min(rank * s.vocab_part, vocab);
    s.vocab = std::min(s.vocab_part, vocab - s.vocab_begin);
    return s;
}

Shard make_shard(const LlamaConfig& c, int rank, int ranks) {
    return make_shard(c.n_heads, c.n_kv_heads, c.ffn_dim, c.vocab, rank, ranks);
}

}  // namespace trireme
