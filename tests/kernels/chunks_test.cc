#include <algorithm>
#include <set>

#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

constexpr int64_t kTokens = 700;  // two complete tiles and a part of a third

/// The keys and values of a sequence in tiles, and the means of its chunks.
struct Text {
    Text(const KvLayout& l, int64_t chunk_tokens, uint32_t seed)
        : layout(l),
          chunk(chunk_tokens),
          chunks((3 * kTileTokens) / chunk),
          kv(l, 1, 3),
          k(DType::kF32, kTokens, kv.width()),
          v(DType::kF32, kTokens, kv.width()),
          means(mean_type(l.k_type), l.kv_heads * chunks, l.head_dim) {
        Machine prefill(Phase::kPrefill);
        append_all(prefill, kv, 0, k.randomize(seed), v.randomize(seed + 1));
    }
    Tensor means_tensor() {
        return Tensor(means.tensor().data(), mean_type(layout.k_type), {layout.kv_heads, chunks, layout.head_dim});
    }
    Tensor table(Operand& o) const { return Tensor(o.tensor().data(), o.tensor().dtype(), {layout.kv_heads, chunks}); }

    KvLayout layout;
    int64_t chunk, chunks;
    Kv kv;
    Operand k, v, means;
};

Operand pick_operand(const ChunkPick& p) {
    return Operand::ids({p.candidates, p.picked, p.tokens});
}

TEST(ChunkMeans, AreTheMeansOfCompleteTiles) {
    on_every_target([] {
        for (const DType type : kKvTypes) {
            const int64_t dim = head_dim_for(24, type, type);
            for (const int64_t chunk : {1, 8, 64, 256}) {
                Text text({3, dim, type, DType::kF32}, chunk, 5);
                Machine m;
                m->chunk_means(text.means_tensor(), text.kv.view(), 0, {0, 1}, chunk);
                m->chunk_means(text.means_tensor(), text.kv.view(), 0, {1, 2}, chunk);
                m.stream->synchronize();
                const Rows keys = stored(text.k, type);
                // The error of a sum of `chunk` numbers below 6, and of its rounding.
                const double tol = 6 * (static_cast<double>(chunk) * kEps + eps_of(mean_type(type)));
                for (int64_t h = 0; h < 3; ++h) {
                    for (int64_t c = 0; c < 2 * kTileTokens / chunk; ++c) {
                        for (int64_t i = 0; i < dim; ++i) {
                            double mean = 0;
                            for (int64_t t = c * chunk; t < (c + 1) * chunk; ++t) mean += keys(t, h * dim + i);
                            ASSERT_NEAR(text.means.get(h * text.chunks + c, i), mean / static_cast<double>(chunk), tol)
                                << name_of(type) << " " << h << " " << c << " " << i;
                        }
                    }
                }
                EXPECT_TRUE(text.means.intact());
            }
        }
    });
}

// Elements of q8_0 may be larger than means, which are f16: these saturate, as in an f16 cache.
TEST(ChunkMeans, SaturateInF16) {
    on_every_target([] {
        Text text({1, 32, DType::kQ8_0, DType::kF32}, 8, 5);
        for (int64_t p = 0; p < kTokens; ++p) {
            for (int64_t i = 0; i < 32; ++i) text.k.set(p, i, i % 2 == 0 ? 1e6 : -1e6);
        }
        Machine prefill(Phase::kPrefill), m;
        append_all(prefill, text.kv, 0, text.k, text.v);
        m->chunk_means(text.means_tensor(), text.kv.view(), 0, {0, 2}, 8);
        m.stream->synchronize();
        for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(text.means.get(3, i), i % 2 == 0 ? 65504 : -65504) << i;
    });
}

/// Returns the chunks that the head should see, by f64 scores. `gap`: how far the score of the last chunk taken is
/// above that of the first one not taken.
std::set<int64_t> best_chunks(Text& text, const Rows& q, const std::vector<int32_t>& kv_of_head, int64_t head,
                              const ChunkPick& p, double& gap) {
    const int64_t dim = text.layout.head_dim;
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t c = 1; c < p.candidates; ++c) {
        double score = 0;
        for (size_t h = 0; h < kv_of_head.size(); ++h) {
            if (kv_of_head[h] != head) continue;
            for (int64_t i = 0; i < dim; ++i) {
                score += q(0, static_cast<int64_t>(h) * dim + i) * text.means.get(head * text.chunks + c, i);
            }
        }
        order.emplace_back(-score, c);
    }
    std::sort(order.begin(), order.end());
    std::set<int64_t> best = {0};
    for (int32_t i = 0; i + 1 < p.picked; ++i) best.insert(order[static_cast<size_t>(i)].second);
    const auto edge = static_cast<size_t>(p.picked - 1);
    gap = p.picked > 1 && edge < order.size() ? order[edge].first - order[edge - 1].first : 1;
    return best;
}

TEST(ChooseChunks, PicksTheFirstAndTheBestOfEveryHead) {
    on_every_target([] {
        for (const DType type : kKvTypes) {
            const int64_t dim = head_dim_for(24, type, type);
            for (const int64_t chunk : {1, 8}) {
                Text text({3, dim, type, DType::kF32}, chunk, 11);
                Machine m;
                m->chunk_means(text.means_tensor(), text.kv.view(), 0, {0, 2}, chunk);
                const std::vector<int32_t> kv_of_head = {0, 0, 0, 1, 2, 2};  // groups of 3, 1 and 2
                Operand heads = Operand::ids(kv_of_head);
                Operand q = Operand(DType::kF32, 1, 6 * dim, 3).randomize(17);
                Operand places(DType::kI32, 3, text.chunks), keys(DType::kI64, 3, text.chunks);
                const auto all = static_cast<int32_t>(2 * kTileTokens / chunk);
                for (const int32_t picked : {1, 2, 5, all / 2, all - 1, all}) {
                    const ChunkPick p = {.candidates = all, .picked = picked, .tokens = kTokens};
                    Operand pick = pick_operand(p);
                    m->choose_chunks(text.table(places), text.table(keys), text.means_tensor(), q.tensor(),
                                     heads.vector(), pick.vector());
                    m.stream->synchronize();
                    for (int64_t h = 0; h < 3; ++h) {
                        double gap = 0;
                        const std::set<int64_t> best = best_chunks(text, q.values(), kv_of_head, h, p, gap);
                        ASSERT_GT(gap, 1e-4);  // at a smaller gap, rounding may change the choice
                        int32_t next = 0;
                        for (int64_t c = 0; c < all; ++c) {
                            ASSERT_EQ(places.at<int32_t>(h, c), best.contains(c) ? next++ : kNotPicked)
                                << name_of(type) << ": chunk " << c << " of head " << h << ", " << picked << " picked";
                        }
                    }
                    EXPECT_TRUE(places.intact() && keys.intact());
                }
            }
        }
    });
}

TEST(ChooseChunks, OfEqualOnesTheEarlier) {
    on_every_target([] {
        Text text({1, 24, DType::kF16, DType::kF16}, 8, 3);
        for (int64_t c = 0; c < text.chunks; ++c) {
            for (int64_t i = 0; i < 24; ++i) text.means.set(c, i, c % 3 == 1 ? 2 : c % 3 == 2 ? 1 : -1);
        }
        Operand heads = Operand::ids({0}), q(DType::kF32, 1, 24);
        for (int64_t i = 0; i < 24; ++i) q.set(0, i, 1);
        Operand places(DType::kI32, 1, text.chunks), keys(DType::kI64, 1, text.chunks);
        Operand pick = pick_operand({.candidates = 12, .picked = 7, .tokens = kTokens});
        Machine m;
        m->choose_chunks(text.table(places), text.table(keys), text.means_tensor(), q.tensor(), heads.vector(),
                         pick.vector());
        m.stream->synchronize();
        const int32_t want[] = {0, 1, 2, -1, 3, 4, -1, 5, -1, -1, 6, -1};  // by score: 0; 1 4 7 10; 2 5
        for (int64_t c = 0; c < 12; ++c) EXPECT_EQ(places.at<int32_t>(0, c), want[c]) << c;
    });
}

TEST(ChooseChunks, NothingWithoutTokens) {
    Text text({1, 24, DType::kF16, DType::kF16}, 8, 3);
    Operand heads = Operand::ids({0}), q(DType::kF32, 1, 24);
    Operand places(DType::kI32, 1, text.chunks), keys(DType::kI64, 1, text.chunks);
    Operand pick = pick_operand({.candidates = 12, .picked = 7, .tokens = 0});
    places.at<int32_t>(0, 5) = 1234;
    Machine m;
    m->choose_chunks(text.table(places), text.table(keys), text.means_tensor(), q.tensor(), heads.vector(),
                     pick.vector());
    m.stream->synchronize();
    EXPECT_EQ(places.at<int32_t>(0, 5), 1234);
    Operand many = pick_operand({.candidates = 12, .picked = 13, .tokens = kTokens});
    m->choose_chunks(text.table(places), text.table(keys), text.means_tensor(), q.tensor(), heads.vector(),
                     many.vector());
    EXPECT_TRUE(refused(m, "choose_chunks") || refused(m, "place_chunks"));
}

// Each head's own chunks are copied in sequence order, followed by all tokens after the candidates; in parts, as tiles
// arrive.
TEST(GatherChunks, CopiesWhatWasPickedPartByPart) {
    on_every_target([] {
        for (const auto& [k_type, v_type] :
             {std::pair{DType::kF16, DType::kF16}, {DType::kF32, DType::kBF16}, {DType::kQ8_0, DType::kQ8_0}}) {
            const int64_t dim = head_dim_for(24, k_type, v_type);
            for (const int64_t chunk : {1, 8, 64}) {
                const KvLayout layout = {2, dim, k_type, v_type};
                Text text(layout, chunk, 23);
                const auto candidates = static_cast<int32_t>(400 / chunk);
                const ChunkPick p = {.candidates = candidates, .picked = candidates / 3, .tokens = kTokens};
                Operand pick = pick_operand(p), places(DType::kI32, 2, text.chunks);
                for (int64_t h = 0; h < 2; ++h) {
                    int32_t next = 0;
                    for (int64_t c = 0; c < candidates; ++c) {
                        places.at<int32_t>(h, c) = next < p.picked && (c + h) % 2 == 0 ? next++ : kNotPicked;
                    }
                }
                Kv seen(layout, 1, 3);
                Machine m;
                Operand first_tiles(DType::kI64, 1, 2), last_tile(DType::kI64, 1, 1);
                m->gather_chunks(seen.view(), text.kv.view(first_tiles, {0, 2}), text.table(places), pick.vector(),
                                 chunk, {0, 2});
                m->gather_chunks(seen.view(), text.kv.view(last_tile, {2, 3}), text.table(places), pick.vector(), chunk,
                                 {2, kEveryTile});
                m.stream->synchronize();

                const Rows want_k = stored(text.k, k_type), want_v = stored(text.v, v_type);
                for (int64_t h = 0; h < 2; ++h) {
                    for (int64_t token = 0; token < kTokens; ++token) {
                        const int64_t c = token / chunk;
                        const int64_t place = c < candidates ? places.at<int32_t>(h, c) : p.picked + c - candidates;
                        if (place == kNotPicked) continue;
                        const int64_t slot = place * chunk + token % chunk;
                        for (const int64_t i : {int64_t{0}, dim - 1}) {
                            ASSERT_EQ(seen.element(0, slot, h, i, false), want_k(token, h * dim + i))
                                << token << " " << h;
                            ASSERT_EQ(seen.element(0, slot, h, i, true), want_v(token, h * dim + i))
                                << token << " " << h;
                        }
                    }
                    // Nothing is written after the last token.
                    EXPECT_TRUE(std::isnan(seen.element(0, p.slots(chunk), h, 0, false)));
                }
            }
        }
    });
}

}  // namespace
}  // namespace trireme::test
