#include "model/checkpoint/shard.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

std::vector<Shard> shards(int64_t n_heads, int64_t n_kv_heads, int64_t ffn_dim, int64_t vocab, int ranks) {
    std::vector<Shard> all;
    for (int r = 0; r < ranks; ++r) all.push_back(make_shard(n_heads, n_kv_heads, ffn_dim, vocab, r, ranks));
    return all;
}

/// Every head of 1..64, every KV head count that divides it, every number of ranks up to the heads.
template <class Body>
void for_each_case(const Body& body) {
    for (int64_t heads = 1; heads <= 64; ++heads) {
        for (int64_t kv = 1; kv <= heads; ++kv) {
            if (heads % kv != 0) continue;
            for (int ranks = 1; ranks <= heads; ++ranks) {
                SCOPED_TRACE(fmt::format("{} heads, {} KV heads, {} ranks", heads, kv, ranks));
                body(heads, kv, ranks);
                if (testing::Test::HasFailure()) return;
            }
        }
    }
}

TEST(Shard, OwnsEveryQueryHeadOnceInRankOrder) {
    for_each_case([](int64_t heads, int64_t kv, int ranks) {
        int64_t next = 0, least = heads, most = 0;
        for (const Shard& s : shards(heads, kv, 320, 1000, ranks)) {
            ASSERT_EQ(s.head_begin, next);
            next += s.n_heads;
            least = std::min(least, s.n_heads);
            ASSERT_TRUE(s.rank == 0 || s.n_heads <= most) << "the first ranks hold the extra heads";
            most = std::max(most, s.n_heads);
        }
        ASSERT_EQ(next, heads);
        ASSERT_GE(least, 1);
        ASSERT_LE(most - least, 1);
    });
}

TEST(Shard, HoldsEveryKvHeadItsQueryHeadsReadAndNoOther) {
    for_each_case([](int64_t heads, int64_t kv, int ranks) {
        const int64_t group = heads / kv;
        int64_t kv_heads_so_far = 0;
        for (const Shard& s : shards(heads, kv, 320, 1000, ranks)) {
            // Lower ranks hold all KV heads before kv_first, and no other rank those from there on.
            ASSERT_EQ(s.kv_first, kv_heads_so_far);
            ASSERT_GE(s.kv_first, s.kv_begin);
            kv_heads_so_far = s.kv_begin + s.n_kv_heads;
            ASSERT_EQ(std::ssize(s.kv_of_head), s.n_heads);
            std::vector<bool> read(static_cast<size_t>(s.n_kv_heads), false);
            for (int64_t h = 0; h < s.n_heads; ++h) {
                const int64_t local = s.kv_of_head[static_cast<size_t>(h)];
                ASSERT_TRUE(local >= 0 && local < s.n_kv_heads);
                ASSERT_EQ(s.kv_begin + local, (s.head_begin + h) / group);
                read[static_cast<size_t>(local)] = true;
            }
            ASSERT_TRUE(std::all_of(read.begin(), read.end(), [](bool b) { return b; }));
        }
    });
}

TEST(Shard, DealsFeedForwardColumnsInBlocksOf32) {
    for (const int64_t ffn : {1, 31, 32, 33, 64, 100, 257, 320, 1536, 11008, 14336, 13824 + 5}) {
        for (int ranks = 1; ranks <= 64; ++ranks) {
            SCOPED_TRACE(fmt::format("{} columns, {} ranks", ffn, ranks));
            int64_t next = 0, least_blocks = ffn, most_blocks = 0;
            for (const Shard& s : shards(64, 8, ffn, 1000, ranks)) {
                ASSERT_EQ(s.ffn_begin, next);
                ASSERT_GE(s.ffn_dim, 0);
                next += s.ffn_dim;
                ASSERT_TRUE(s.ffn_dim % 32 == 0 || next == ffn) << "only the last block may be short";
                least_blocks = std::min(least_blocks, (s.ffn_dim + 31) / 32);
                most_blocks = std::max(most_blocks, (s.ffn_dim + 31) / 32);
            }
            ASSERT_EQ(next, ffn);
            ASSERT_LE(most_blocks - least_blocks, 1);
        }
    }
}

TEST(Shard, SplitsTheVocabularyInEqualPaddedParts) {
    for (const int64_t vocab : {1, 31, 32, 33, 100, 259, 1000, 32000, 32001, 128256}) {
        for (int ranks = 1; ranks <= 64; ++ranks) {
            SCOPED_TRACE(fmt::format("{} rows, {} ranks", vocab, ranks));
            int64_t next = 0;
            for (const Shard& s : shards(64, 8, 320, vocab, ranks)) {
                ASSERT_EQ(s.vocab_part % 32, 0);
                ASSERT_GE(s.vocab_part * ranks, vocab);
                ASSERT_LT((s.vocab_part - 32) * ranks, vocab) << "no part is larger than it must be";
                ASSERT_EQ(s.vocab_begin, std::min(s.rank * s.vocab_part, vocab));
                ASSERT_EQ(s.vocab_begin, next);
                ASSERT_TRUE(s.vocab >= 0 && s.vocab <= s.vocab_part);
                ASSERT_TRUE(s.vocab == s.vocab_part || next + s.vocab == vocab);
                next += s.vocab;
            }
            ASSERT_EQ(next, vocab);
        }
    }
}

TEST(Shard, MatchesTheWorkedExamples) {
    // Llama-2-7B on 2 ranks divides evenly.
    const Shard even = make_shard(32, 32, 11008, 32000, 1, 2);
    EXPECT_EQ(even.head_begin, 16);
    EXPECT_EQ(even.n_heads, 16);
    EXPECT_EQ(even.kv_begin, 16);
    EXPECT_EQ(even.n_kv_heads, 16);
    EXPECT_EQ(even.ffn_begin, 5504);
    EXPECT_EQ(even.ffn_dim, 5504);
    EXPECT_EQ(even.vocab_begin, 16000);
    EXPECT_EQ(even.vocab_part, 16000);

    // 9 query heads on 3 KV heads over 4 ranks: 3, 2, 2, 2; rank 2 holds heads 5 and 6, which read KV heads 1 and 2.
    const Shard odd = make_shard(9, 3, 100, 70, 2, 4);
    EXPECT_EQ(odd.head_begin, 5);
    EXPECT_EQ(odd.n_heads, 2);
    EXPECT_EQ(odd.kv_begin, 1);
    EXPECT_EQ(odd.n_kv_heads, 2);
    EXPECT_EQ(odd.kv_of_head, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(odd.ffn_begin, 64);
    EXPECT_EQ(odd.ffn_dim, 32);
    EXPECT_EQ(odd.vocab_part, 32);
    EXPECT_EQ(odd.vocab_begin, 64);
    EXPECT_EQ(odd.vocab, 6);
    EXPECT_EQ(make_shard(9, 3, 100, 70, 3, 4).ffn_dim, 4);
    EXPECT_EQ(make_shard(9, 3, 100, 70, 3, 4).vocab, 0);
}

TEST(Shard, RefusesMoreRanksThanQueryHeads) {
    for (const int rank : {0, 4}) {
        try {
            make_shard(4, 2, 320, 1000, rank, 5);
            FAIL() << "nothing was thrown";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig);
            EXPECT_THAT(e.what(), testing::MatchesRegex("5 ranks, .* 4 query heads: .* 4"));
        }
    }
}

}  // namespace
}  // namespace trireme::test
