#include <algorithm>

#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

struct Case {
    int64_t head_dim;
    int64_t kv_heads;
    std::vector<int32_t> kv_of_head;
    DType k_type, v_type;
};

const Case kCases[] = {
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kF16, DType::kF16},
    {64, 2, {0, 0, 1, 1, 1}, DType::kBF16, DType::kF32},  // a rank with fewer query heads
    {40, 4, {0, 1, 2, 3}, DType::kF32, DType::kF16},
    {80, 3, {1, 1, 2}, DType::kF16, DType::kBF16},  // no query head reads KV head 0
    {8, 1, {0}, DType::kBF16, DType::kBF16},
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kBF16, DType::kBF16},
    {96, 2, {0, 0, 0, 0, 0, 0, 0, 1}, DType::kBF16, DType::kBF16},
    {96, 1, std::vector<int32_t>(50, 0), DType::kF16, DType::kF16},  // more heads than are scored at once
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kQ8_0, DType::kQ8_0},
    {128, 2, {0, 1}, DType::kQ8_0, DType::kQ8_0},
    {96, 2, {0, 0, 0, 0, 0, 0, 0, 1}, DType::kQ8_0, DType::kBF16},
    {32, 2, {0, 1, 1}, DType::kF16, DType::kQ8_0},
};

/// One sequence of `cached` tokens and `parents.size()` staged rows; parent -1 is the last cached token.
struct Scene {
    Scene(const Case& c, int64_t context, const std::vector<int>& tree, uint32_t seed)
        : shape(c),
          cached(context),
          parents(tree),
          kv({c.kv_heads, c.head_dim, c.k_type, c.v_type}, 2, (context + 63) / kTileTokens + 1),
          k(DType::kF32, context, kv.width(), 1),
          v(DType::kF32, context, kv.width(), 2),
          new_k(DType::kF32, rows(), kv.width(), 3),
          new_v(DType::kF32, rows(), kv.width()),
          q(DType::kF32, rows(), static_cast<int64_t>(c.kv_of_head.size()) * c.head_dim, 5),
          heads(Operand::ids(c.kv_of_head)) {
        k.randomize(seed);
        v.randomize(seed + 1);
        new_k.randomize(seed + 2);
        new_v.randomize(seed + 3);
        q.randomize(seed + 4, 2);
        Machine prefill(Phase::kPrefill);
        append_all(prefill, kv, 1, k, v);
    }
    int64_t rows() const { return static_cast<int64_t>(parents.size()); }
    std::vector<int32_t> path(int64_t row) const {
        std::vector<int32_t> p;
        for (int r = static_cast<int>(row); r >= 0; r = parents[static_cast<size_t>(r)]) p.push_back(r);
        std::reverse(p.begin(), p.end());
        return p;
    }
    /// Attends all rows in one call.
    Operand attend(Machine& m) {
        RowSet set(rows());
        for (int64_t r = 0; r < rows(); ++r) set.set(r, 1, cached, path(r));
        Operand out(DType::kF32, rows(), q.cols(), 3);
        stage_all(m, kv.view(), new_k.tensor(), new_v.tensor());
        m->attention(out.tensor(), q.tensor(), kv.view(), heads.vector(), set.view(cached + rows()));
        m.stream->synchronize();
        EXPECT_TRUE(out.intact());
        return out;
    }
    /// Decodes the path of one row without a tree: one ancestor per call, each kept before the next. Returns the last
    /// row's result.
    std::vector<float> decode_alone(Machine& m, int64_t row) {
        Operand out(DType::kF32, 1, q.cols());
        int64_t at = cached;
        for (const int32_t r : path(row)) {
            RowSet set(1);
            set.set(0, 1, at, {0});
            stage_all(m, kv.view(), new_k.tensor().slice_rows(r, 1), new_v.tensor().slice_rows(r, 1));
            if (r == row) {
                m->attention(out.tensor(), q.tensor().slice_rows(r, 1), kv.view(), heads.vector(), set.view(at + 1));
            }
            const LayerKv layer = kv.view();
            Operand kept(DType::kI32, 1, 3);
            kept.at<int32_t>(0, 0) = 0;
            kept.at<int32_t>(0, 1) = static_cast<int32_t>(at++);
            kept.at<int32_t>(0, 2) = 1;
            m->kv_keep({&layer, 1}, kept.tensor());
            m.stream->synchronize();
        }
        return out.floats();
    }
    Rows want(int64_t row) {
        const std::vector<int32_t> p = path(row);
        Rows keys(cached + static_cast<int64_t>(p.size()), kv.width()), values = keys;
        const Rows ks = stored(k, shape.k_type), vs = stored(v, shape.v_type);
        const Rows nk = stored(new_k, shape.k_type), nv = stored(new_v, shape.v_type);
        for (int64_t i = 0; i < keys.rows; ++i) {
            for (int64_t c = 0; c < kv.width(); ++c) {
                const int64_t staged = i - cached;
                keys(i, c) = staged < 0 ? ks(i, c) : nk(p[static_cast<size_t>(staged)], c);
                values(i, c) = staged < 0 ? vs(i, c) : nv(p[static_cast<size_t>(staged)], c);
            }
        }
        Rows one(1, q.cols());
        for (int64_t c = 0; c < q.cols(); ++c) one(0, c) = q.get(row, c);
        tolerance = attention_tolerance(one, keys, values, static_cast<int64_t>(shape.kv_of_head.size()),
                                        decode_attends_in(shape.k_type, shape.v_type));
        return reference::attention(one, keys, values, shape.kv_of_head);
    }

    Case shape;
    int64_t cached;
    std::vector<int> parents;
    Kv kv;
    Operand k, v, new_k, new_v, q, heads;
    double tolerance = 0;
};

std::vector<int> chain(int n) {
    std::vector<int> parents;
    for (int i = 0; i < n; ++i) parents.push_back(i - 1);
    return parents;
}
std::vector<int> random_tree(int n, uint32_t seed) {
    Normal pick(seed);
    std::vector<int> parents;
    for (int i = 0; i < n; ++i) parents.push_back(static_cast<int>(pick.below(i + 1)) - 1);
    return parents;
}

constexpr int64_t kContexts[] = {0, 1, 255, 256, 257, 511, 700, 2100};

TEST(AttentionDecode, MatchesTheReference) {
    for (const Case& c : kCases) {
        for (const int64_t context : kContexts) {
            Scene s(c, context, random_tree(5, 7), 11);
            std::vector<Rows> want;
            for (int64_t r = 0; r < s.rows(); ++r) want.push_back(s.want(r));
            on_every_target([&] {
                Machine m;

                Operand out = s.attend(m);

                for (int64_t r = 0; r < s.rows(); ++r) {
                    ASSERT_TRUE((near<float, double>(out.row(r), want[static_cast<size_t>(r)].at, s.tolerance)))
                        << "head_dim " << c.head_dim << " context " << context << " row " << r;
                }
            });
        }
    }
}

TEST(AttentionDecode, ARowOfATreeEqualsPlainDecoding) {
    on_every_target([] {
        for (const Case& c : kCases) {
            for (const int64_t context : {0, 200, 255}) {
                Scene s(c, context, random_tree(context == 200 ? 64 : 9, 5), 21);
                Machine m;
                Operand together = s.attend(m);

                for (int64_t r = 0; r < s.rows(); r += context == 200 ? 9 : 1) {
                    const std::vector<float> alone = s.decode_alone(m, r);
                    ASSERT_TRUE(same_bits<float>(together.row(r), alone))
                        << "head_dim " << c.head_dim << " context " << context << " row " << r;
                }
            }
        }
    });
}

TEST(AttentionDecode, AnyNumberOfRowsAndThreadsGivesTheSameBits) {
    Scene s(kCases[0], 2100, chain(64), 31);
    Machine one(Phase::kDecode, 1);
    Operand want = s.attend(one);
    for (const int threads : thread_counts()) {
        Machine m(Phase::kDecode, threads);
        for (const int64_t rows : row_counts()) {
            if (rows > 9 && rows % 11 != 9) continue;
            s.parents = chain(static_cast<int>(rows));
            RowSet set(rows);
            for (int64_t r = 0; r < rows; ++r) set.set(r, 1, s.cached, s.path(r));
            Operand out(DType::kF32, rows, s.q.cols());
            m->attention(out.tensor(), s.q.tensor().first_rows(rows), s.kv.view(), s.heads.vector(),
                         set.view(s.cached + rows));
            m.stream->synchronize();

            for (int64_t r = 0; r < rows; ++r) {
                ASSERT_TRUE(same_bits(out.row(r), want.row(r)))
                    << "rows " << rows << " row " << r << " threads " << threads;
            }
        }
    }
}

// A graph of 8 rows serves 5: the others are padding.
TEST(AttentionDecode, PaddingRowsGiveZerosAndChangeNoBit) {
    on_every_target([] {
        for (const Case& c : kCases) {
            for (const int64_t context : {0, 700}) {
                Scene s(c, context, random_tree(5, 7), 13);
                Machine m;
                Operand want = s.attend(m), q(DType::kF32, 8, s.q.cols(), 2), out(DType::kF32, 8, s.q.cols(), 3);
                RowSet set(8);
                for (int64_t r = 0; r < s.rows(); ++r) {
                    set.set(r, 1, s.cached, s.path(r));
                    for (int64_t i = 0; i < q.cols(); ++i) q.set(r, i, s.q.get(r, i));
                }
                for (int64_t r = s.rows(); r < 8; ++r) {  // their queries remain NaN
                    set.set(r, kPadding, 0, {});
                    out.set(r, 0, 7);
                }

                m->attention(out.tensor(), q.tensor(), s.kv.view(), s.heads.vector(), set.view(s.cached + s.rows()));
                m.stream->synchronize();

                EXPECT_TRUE(out.intact());
                for (int64_t r = 0; r < s.rows(); ++r) ASSERT_TRUE(same_bits(out.row(r), want.row(r))) << context;
                for (int64_t r = s.rows(); r < 8; ++r) {
                    EXPECT_EQ(std::ranges::count(out.row(r), 0.0F), out.cols()) << context;
                }
            }
        }
    });
}

TEST(AttentionDecode, SmallScratchGivesTheSameBits) {
    // CPU: scratch for records of 8 tiles of 64 rows, of 128 tiles of one row. The two machines end waves elsewhere.
    Scene s(kCases[1], 2500, chain(64), 41);
    Machine wide, narrow(Phase::kDecode, 2, {.max_rows = 64, .max_k = 8, .max_n = 8, .heads = 5, .head_dim = 64});

    Operand a = s.attend(wide), b = s.attend(narrow);

    const std::vector<float> x = a.floats(), y = b.floats();
    EXPECT_TRUE(same_bits<float>(x, y));
}

// In a graph the bound is the end of the context. Scratch holds records of 4 tiles on a GPU, 8 on the CPU: rows end in
// one wave or in the next, and later waves have no rows.
TEST(AttentionDecode, ABoundFarPastTheRowsGivesTheSameBits) {
    for (const int64_t context : {0, 200, 990, 2030}) {
        Scene s(kCases[1], context, chain(64), 43);
        RowSet set(64);
        for (int64_t r = 0; r < 64; ++r) set.set(r, 1, s.cached, s.path(r));
        on_every_target([&] {
            Machine wide,
                narrow(Phase::kDecode, 2, {.max_rows = 64, .max_k = 8, .max_n = 8, .heads = 5, .head_dim = 64});
            Operand want = s.attend(wide), out(DType::kF32, 64, s.q.cols(), 3);

            narrow->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), set.view(12 * kTileTokens));
            narrow.stream->synchronize();

            EXPECT_TRUE(out.intact());
            EXPECT_TRUE(same_bits<float>(out.floats(), want.floats())) << context;
        });
    }
}

// Tiles arrive a few at a time, and the table of each part holds only its own tiles.
TEST(AttentionDecode, PartsGiveTheSameBits) {
    on_every_target([] {
        for (const Case& c : kCases) {
            for (const int64_t context : {255, 256, 700, 2100}) {
                if (kSanitized && context != 700) continue;  // the same code, one tile or nine
                Scene s(c, context, random_tree(5, 7), 35);
                RowSet set(s.rows());
                for (int64_t r = 0; r < s.rows(); ++r) set.set(r, 1, s.cached, s.path(r));
                const RowsView view = set.view(s.cached + s.rows());
                Machine m;
                Operand want = s.attend(m);
                for (const int64_t step : {1, 2, 3, 7}) {
                    const int64_t last = context / kTileTokens;  // the tile of the rows' own slots is in the last part
                    Operand out(DType::kF32, s.rows(), s.q.cols(), 3);
                    std::vector<std::unique_ptr<Operand>> tables;
                    for (int64_t first = 0; first <= last; first += step) {
                        const TileRange part{first, first + step > last ? kEveryTile : first + step};
                        tables.push_back(std::make_unique<Operand>(DType::kI64, 2, s.kv.table.cols() - first));
                        m->attention(out.tensor(), s.q.tensor(), s.kv.view(*tables.back(), part), s.heads.vector(),
                                     view, part);
                    }
                    m.stream->synchronize();

                    EXPECT_TRUE(out.intact());
                    for (int64_t r = 0; r < s.rows(); ++r) {
                        ASSERT_TRUE(same_bits(out.row(r), want.row(r)))
                            << "head_dim " << c.head_dim << " context " << context << " parts of " << step;
                    }
                }
            }
        }
    });
}

TEST(AttentionDecode, SequencesDoNotMix) {
    Machine m;
    Scene s(kCases[0], 300, chain(4), 51);
    Machine prefill(Phase::kPrefill);
    Operand k0 = Operand(DType::kF32, 40, s.kv.width()).randomize(60),
            v0 = Operand(DType::kF32, 40, s.kv.width()).randomize(61);
    append_all(prefill, s.kv, 0, k0, v0);
    Operand alone = s.attend(m);

    // Rows 0 and 1 belong to sequence 1, rows 2 and 3 to sequence 0.
    RowSet set(4);
    set.set(0, 1, 300, {0});
    set.set(1, 1, 300, {0, 1});
    set.set(2, 0, 40, {2});
    set.set(3, 0, 40, {2, 3});
    Operand out(DType::kF32, 4, s.q.cols());
    m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), set.view(302));
    m.stream->synchronize();

    EXPECT_TRUE(same_bits(out.row(0), alone.row(0)));
    EXPECT_TRUE(same_bits(out.row(1), alone.row(1)));
    EXPECT_FALSE(same_bits(out.row(2), alone.row(2)));
    EXPECT_TRUE(std::isfinite(out.get(3, 0)));

    // Interleaved rows, on another machine, so that nothing of the rows above is left in its scratch.
    Machine other;
    RowSet turns(3);
    turns.set(0, 1, 300, {0});
    turns.set(1, 0, 40, {1});
    turns.set(2, 1, 300, {0, 1, 2});
    Operand by_turns(DType::kF32, 3, s.q.cols());
    other->attention(by_turns.tensor(), s.q.tensor().first_rows(3), s.kv.view(), s.heads.vector(), turns.view(303));
    other.stream->synchronize();

    EXPECT_TRUE(same_bits(by_turns.row(0), alone.row(0)));
    EXPECT_TRUE(same_bits(by_turns.row(2), alone.row(2)));
}

TEST(AttentionDecode, RowsOfOneSequenceMayHaveCommittedDifferently) {
    // Row 1 sees row 0's token in the tile, row 0 has it staged: each gets the bits that it has when both are staged.
    Machine m;
    Scene s(kCases[0], 255, chain(2), 71);
    Operand want = s.attend(m);
    const std::vector<float> first = s.decode_alone(m, 0);  // leaves row 0's token at position 255

    RowSet set(2);
    set.set(0, 1, 255, {0});
    set.set(1, 1, 256, {1});
    Operand out(DType::kF32, 2, s.q.cols());
    stage_all(m, s.kv.view(), s.new_k.tensor(), s.new_v.tensor());
    m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), set.view(257));
    m.stream->synchronize();

    EXPECT_TRUE(same_bits(out.row(0), want.row(0)));
    EXPECT_TRUE(same_bits(out.row(1), want.row(1)));
}

// At position 255, row 0 has a staged token and row 1 another one in its tile: neither sees the other's.
TEST(AttentionDecode, RowsOfOneSequenceMayStageWhatOthersHaveInTiles) {
    Scene s(kCases[0], 256, chain(2), 73);
    RowSet set(2);
    set.set(0, 1, 255, {0});
    set.set(1, 1, 256, {1});
    const RowsView both = set.view(257);
    on_every_target([&] {
        Machine m;
        Operand out(DType::kF32, 2, s.q.cols()), alone(DType::kF32, 2, s.q.cols());
        stage_all(m, s.kv.view(), s.new_k.tensor(), s.new_v.tensor());

        m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), both);
        for (int64_t r = 0; r < 2; ++r) {
            m->attention(alone.tensor().slice_rows(r, 1), s.q.tensor().slice_rows(r, 1), s.kv.view(), s.heads.vector(),
                         both.some(r, 1, 257));
        }
        m.stream->synchronize();

        for (int64_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(out.row(r), alone.row(r))) << r;
    });
}

// Queries of zeros give all keys the same weight: the result is the mean of whole numbers, whose sums are exact. A
// missing, surplus or wrong key is noticed at every context length.
TEST(AttentionDecode, WeighsEqualKeysExactly) {
    for (const Case& c : kCases) {
        for (const int64_t context : {0, 1, 255, 256, 257, 700}) {
            if (c.v_type == DType::kQ8_0) continue;  // it rounds whole numbers
            Scene s(c, context, random_tree(5, 7), 13);
            s.q.randomize(1, 0);
            for (int64_t p = 0; p < context; ++p) {
                for (int64_t col = 0; col < s.v.cols(); ++col) s.v.set(p, col, whole_value(p, col));
            }
            for (int64_t r = 0; r < s.rows(); ++r) {
                for (int64_t col = 0; col < s.v.cols(); ++col) s.new_v.set(r, col, whole_value(1000 + r, col));
            }
            Machine prefill(Phase::kPrefill);
            append_all(prefill, s.kv, 1, s.k, s.v);
            on_every_target([&] {
                Machine m;

                Operand out = s.attend(m);

                for (int64_t r = 0; r < s.rows(); ++r) {
                    const std::vector<int32_t> path = s.path(r);
                    for (int64_t col = 0; col < out.cols(); ++col) {
                        const int64_t at =
                            c.kv_of_head[static_cast<size_t>(col / c.head_dim)] * c.head_dim + col % c.head_dim;
                        double sum = 0;
                        for (int64_t p = 0; p < context; ++p) sum += whole_value(p, at);
                        for (const int32_t ancestor : path) sum += whole_value(1000 + ancestor, at);
                        const double want = sum / static_cast<double>(context + static_cast<int64_t>(path.size()));
                        ASSERT_NEAR(out.get(r, col), want, 2 * kEps * std::fabs(want))
                            << "head_dim " << c.head_dim << " context " << context << " row " << r;
                    }
                }
            });
        }
    }
}

TEST(AttentionDecode, AStagedRowNeedsNoTile) {
    Scene s(kCases[0], 256, chain(2), 47);
    RowSet set(2);
    for (int64_t r = 0; r < 2; ++r) set.set(r, 1, s.cached, s.path(r));
    on_every_target([&] {
        Machine m;
        Operand want = s.attend(m), out(DType::kF32, 2, s.q.cols());
        LayerKv one_tile = s.kv.view();
        one_tile.tiles = one_tile.tiles.slice_cols(0, 1);

        m->attention(out.tensor(), s.q.tensor(), one_tile, s.heads.vector(), set.view(s.cached + 2));
        m.stream->synchronize();

        EXPECT_TRUE(same_bits<float>(out.floats(), want.floats()));
    });
}

TEST(AttentionDecode, AncestorsPastThePathAreIgnored) {
    Scene s(kCases[0], 300, chain(3), 49);
    RowSet set(3);
    for (int64_t r = 0; r < 3; ++r) {
        for (int64_t i = 0; i < kMaxRows; ++i) set.ancestors.at<int32_t>(r, i) = 1;
        set.set(r, 1, s.cached, s.path(r));
    }
    on_every_target([&] {
        Machine m;
        Operand want = s.attend(m), out(DType::kF32, 3, s.q.cols());
        m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), set.view(s.cached + 3));
        m.stream->synchronize();

        EXPECT_TRUE(same_bits<float>(out.floats(), want.floats()));
    });
}

// Memory before and after the ids of rows and heads may hold more valid ids.
TEST(AttentionDecode, RowsOfOneCallMayBeSomeOfMore) {
    constexpr int64_t kDim = 8;
    Scene s({kDim, 1, {0, 0, 0}, DType::kBF16, DType::kBF16}, 300, chain(3), 45);
    RowSet set(3);
    for (int64_t r = 0; r < 3; ++r) set.set(r, 1, s.cached, {0});  // siblings: all see staged row 0
    const auto middle = [](Operand& ids) { return Tensor(&ids.at<int32_t>(1, 0), DType::kI32, Shape{1}); };
    on_every_target([&] {
        Machine m;
        Operand want(DType::kF32, 3, s.q.cols()), out(DType::kF32, 1, kDim);
        stage_all(m, s.kv.view(), s.new_k.tensor(), s.new_v.tensor());
        m->attention(want.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), set.view(s.cached + 1));

        m->attention(out.tensor(), s.q.tensor().slice_rows(1, 1).slice_cols(kDim, kDim), s.kv.view(), middle(s.heads),
                     {middle(set.slots), middle(set.sequences), middle(set.cached),
                      set.ancestors.tensor().slice_rows(1, 1), s.cached + 1});
        m.stream->synchronize();

        EXPECT_TRUE(out.intact());
        EXPECT_TRUE(same_bits(out.row(0), want.row(1).subspan(kDim, kDim)));
    });
}

TEST(AttentionDecode, SurvivesScoresFarApart) {
    on_every_target([] {
        Machine m;
        Scene s(kCases[0], 600, chain(1), 81);
        for (int64_t c = 0; c < s.q.cols(); ++c) s.q.set(0, c, s.q.get(0, c) * 200);  // softmax picks one key
        Operand out = s.attend(m);

        const Rows want = s.want(0);
        EXPECT_TRUE((near<float, double>(out.row(0), want.at, s.tolerance)));
    });
}

TEST(AttentionDecode, RefusesRowsThatContradictThemselves) {
    Scene s(kCases[0], 10, chain(2), 91);
    const auto run = [&](int32_t position, int32_t cached, int32_t ancestor, int64_t max_slots = 10000) {
        Machine m;
        RowSet set(1);
        set.set(0, 1, cached, {ancestor});
        set.slots.at<int32_t>(0, 0) = position;
        Operand out(DType::kF32, 1, s.q.cols());
        m->attention(out.tensor(), s.q.tensor().first_rows(1), s.kv.view(), s.heads.vector(), set.view(max_slots));
        m.stream->synchronize();
    };
    const auto refuses = [&](int32_t position, int32_t cached, int32_t ancestor, const std::string& words) {
        return refused([&] { run(position, cached, ancestor); }, words);
    };

    EXPECT_NO_THROW(run(10, 10, 0));
    EXPECT_NO_THROW(run(10, 10, 0, 11));
    EXPECT_TRUE(refused([&] { run(10, 10, 0, 10); }, "stands at 10 after 10"));
    EXPECT_NO_THROW(run(9, 10, 0));  // a row that does not see itself
    EXPECT_NO_THROW(run(-1, 0, 0));
    EXPECT_TRUE(refuses(8, 10, 0, "stands at 8 after 10"));
    EXPECT_TRUE(refuses(-2, 0, 0, "stands at -2 after 0"));
    EXPECT_TRUE(refuses(10, 10, 1, "ancestor 1 of"));   // not staged
    EXPECT_TRUE(refuses(11, 10, 0, "ancestor -1 of"));  // its second one is missing
    EXPECT_TRUE(refuses(74, 10, 0, "stands at 74 after 10"));
    EXPECT_TRUE(refuses(9999, 9999, 0, "no tile holds slot"));
}

}  // namespace
}  // namespace trireme::test
