#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

struct Case {
    int64_t head_dim;
    int64_t kv_heads;
    std::vector<int32_t> kv_of_head;
    DType k_type, v_type;
    int64_t before, rows;  // slots already cached, rows of the batch
};

const Case kCases[] = {
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kF16, DType::kF16, 0, 1},
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kF16, DType::kF16, 0, 300},
    {64, 2, {0, 0, 1, 1, 1}, DType::kBF16, DType::kF32, 512, 130},
    {40, 2, {0, 1}, DType::kF32, DType::kF16, 255, 33},
    {80, 3, {1, 1, 2}, DType::kF16, DType::kBF16, 256, 257},
    {96, 1, {0}, DType::kF16, DType::kF16, 700, 7},
    {64, 1, {0}, DType::kF16, DType::kF16, 256, 1},
    {8, 1, std::vector<int32_t>(50, 0), DType::kBF16, DType::kBF16, 1, 40},
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kBF16, DType::kBF16, 300, 131},
    {96, 2, {0, 1}, DType::kBF16, DType::kBF16, 0, 301},
    {16, 4, {1, 1, 3}, DType::kF16, DType::kF16, 3, 64},  // no query head reads KV heads 0 and 2
    {64, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2}, DType::kQ8_0, DType::kQ8_0, 300, 131},
    {128, 2, {0, 1}, DType::kQ8_0, DType::kQ8_0, 0, 301},
    {96, 2, {0, 1}, DType::kQ8_0, DType::kF16, 255, 33},
    {160, 1, {0}, DType::kQ8_0, DType::kQ8_0, 3, 40},
};

struct Scene {
    explicit Scene(const Case& c)
        : shape(c),
          kv({c.kv_heads, c.head_dim, c.k_type, c.v_type}, 1, (c.before + c.rows) / kTileTokens + 1),
          k(DType::kF32, c.before + c.rows, kv.width()),
          v(DType::kF32, c.before + c.rows, kv.width()),
          q(DType::kF32, c.rows, static_cast<int64_t>(c.kv_of_head.size()) * c.head_dim, 5),
          heads(Operand::ids(c.kv_of_head)),
          rows(c.rows) {
        k.randomize(1);
        v.randomize(2);
        q.randomize(3, 2);
        for (int64_t r = 0; r < c.rows; ++r) rows.set(r, 0, c.before + r, {0});
        Machine m(Phase::kPrefill);
        append_all(m, kv, 0, k, v);
    }
    Operand attend(Machine& m) {
        Operand out(DType::kF32, shape.rows, q.cols(), 3);
        m->attention(out.tensor(), q.tensor(), kv.view(), heads.vector(), rows.view(shape.before + shape.rows));
        m.stream->synchronize();
        EXPECT_TRUE(out.intact());
        return out;
    }

    Case shape;
    Kv kv;
    Operand k, v, q, heads;
    RowSet rows;
};

void matches_the_reference(Machine& m, Scene& s) {
    const Case& c = s.shape;
    const Rows ks = stored(s.k, c.k_type), vs = stored(s.v, c.v_type), qs = s.q.values();

    Operand out = s.attend(m);

    for (int64_t r = 0; r < c.rows; r += r + 7 < c.rows ? 7 : 1) {
        const int64_t n = c.before + r + 1, w = s.kv.width();
        const Rows keys(n, w, {ks.at.begin(), ks.at.begin() + n * w}),
            values(n, w, {vs.at.begin(), vs.at.begin() + n * w});
        const Rows one(1, qs.cols, {qs.at.begin() + r * qs.cols, qs.at.begin() + (r + 1) * qs.cols});
        const double tol = attention_tolerance(one, keys, values, static_cast<int64_t>(c.kv_of_head.size()),
                                               attended_in(c.k_type, c.v_type));
        const Rows want = reference::attention(one, keys, values, c.kv_of_head);
        ASSERT_TRUE((near<float, double>(out.row(r), want.at, tol))) << "head_dim " << c.head_dim << " row " << r;
    }
}

TEST(AttentionPrefill, MatchesTheReference) {
    on_every_target([] {
        Machine m(Phase::kPrefill);
        for (const Case& c : kCases) {
            Scene s(c);
            matches_the_reference(m, s);
        }
    });
}

// More rows than a decode forward has, and more tiles than fit at once: each row has its own running maximum and sum.
TEST(AttentionPrefill, OfManyRowsTakesSeveralWaves) {
    const Case c = {8, 2, {0, 1}, DType::kF32, DType::kF32, 2600, 130};
    on_every_target([&] {
        Machine m(Phase::kPrefill, 2,
                  {.max_rows = 130, .max_k = 64, .max_n = 64, .heads = 2, .head_dim = 8, .vocab = 0});
        Scene s(c);
        matches_the_reference(m, s);
    });
}

// Groups of eight rows alternate: in one, a single key takes all the weight; the next is plain. Each row has its own
// maximum.
TEST(AttentionPrefill, SurvivesScoresFarApart) {
    const Case c = {64, 1, {0}, DType::kF16, DType::kF16, 300, 40};
    on_every_target([&] {
        Machine m(Phase::kPrefill);
        Scene s(c);
        for (int64_t r = 0; r < c.rows; ++r) {
            for (int64_t i = 0; i < s.q.cols() && r / 8 % 2 == 0; ++i) s.q.set(r, i, s.q.get(r, i) * 300);
        }
        matches_the_reference(m, s);
    });
}

// Keys and values that overflow f16 affect only the row that they belong to.
TEST(AttentionPrefill, ARowThatOverflowsLeavesTheOthersAlone) {
    const Case c = {64, 1, {0}, DType::kF16, DType::kF16, 0, 40};
    on_every_target([&] {
        Machine m(Phase::kPrefill);
        Scene s(c);
        const Operand plain = s.attend(m);
        for (int64_t i = 0; i < 64; ++i) {
            s.k.set(39, i, 1e6);
            s.v.set(39, i, i % 2 == 0 ? 1e6 : -1e6);
        }
        append_all(m, s.kv, 0, s.k, s.v);

        Operand want = plain, out = s.attend(m);

        for (int64_t r = 0; r < 39; ++r) ASSERT_TRUE(same_bits(out.row(r), want.row(r))) << r;
        for (int64_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isfinite(out.get(39, i))) << i;
    });
}

// Like the test of AttentionDecode with this name: results are means of whole numbers.
TEST(AttentionPrefill, WeighsEqualKeysExactly) {
    for (const Case& c : kCases) {
        if (c.v_type == DType::kQ8_0) continue;  // it rounds whole numbers
        Scene s(c);
        s.q.randomize(1, 0);
        for (int64_t p = 0; p < s.v.rows(); ++p) {
            for (int64_t col = 0; col < s.v.cols(); ++col) s.v.set(p, col, whole_value(p, col));
        }
        Machine append(Phase::kPrefill);
        append_all(append, s.kv, 0, s.k, s.v);
        on_every_target([&] {
            Machine m(Phase::kPrefill);

            Operand out = s.attend(m);

            for (int64_t col = 0; col < out.cols(); ++col) {
                const int64_t at = c.kv_of_head[static_cast<size_t>(col / c.head_dim)] * c.head_dim + col % c.head_dim;
                double sum = 0;
                for (int64_t p = 0; p < c.before; ++p) sum += whole_value(p, at);
                for (int64_t r = 0; r < c.rows; ++r) {
                    sum += whole_value(c.before + r, at);
                    const double want = sum / static_cast<double>(c.before + r + 1);
                    ASSERT_NEAR(out.get(r, col), want, 2 * kEps * std::fabs(want))
                        << "head_dim " << c.head_dim << " row " << r;
                }
            }
        });
    }
}

// The rows of a call may be followed in memory by rows that do not belong to it.
TEST(AttentionPrefill, RowsOfOneCallMayBeSomeOfMore) {
    for (const Case& c : {kCases[1], kCases[7]}) {
        Scene s(c);
        const int64_t rows = c.rows - 1;
        on_every_target([&] {
            Machine m(Phase::kPrefill);
            Operand want = s.attend(m), out(DType::kF32, rows, s.q.cols());
            RowsView some = s.rows.view(c.before + c.rows);
            some.slots = Tensor(some.slots.data(), DType::kI32, Shape{rows});
            some.sequences = Tensor(some.sequences.data(), DType::kI32, Shape{rows});
            some.cached = Tensor(some.cached.data(), DType::kI32, Shape{rows});
            some.ancestors = some.ancestors.first_rows(rows);

            m->attention(out.tensor(), s.q.tensor().first_rows(rows), s.kv.view(), s.heads.vector(), some);
            m.stream->synchronize();

            EXPECT_TRUE(out.intact());
            for (int64_t r = 0; r < rows; ++r) ASSERT_TRUE(same_bits(out.row(r), want.row(r))) << r;
        });
    }
}

TEST(AttentionPrefill, HasTheSameBitsForAnyNumberOfThreads) {
    for (const Case& c : kCases) {
        Scene s(c);
        Machine one(Phase::kPrefill, 1);
        const std::vector<float> want = s.attend(one).floats();
        for (const int threads : thread_counts()) {
            Machine m(Phase::kPrefill, threads);
            const std::vector<float> got = s.attend(m).floats();
            EXPECT_TRUE(same_bits<float>(got, want)) << threads;
        }
    }
}

TEST(AttentionPrefill, IsCloseToDecodeOfTheSameRow) {
    for (const Case& c : kCases) {
        Scene s(c);
        Machine prefill(Phase::kPrefill), decode;
        Operand batch = s.attend(prefill);
        const int64_t r = c.rows - 1;
        RowSet set(1);
        set.set(0, 0, c.before + r, {0});
        Operand one(DType::kF32, 1, s.q.cols());
        stage_all(decode, s.kv.view(), s.k.tensor().slice_rows(c.before + r, 1),
                  s.v.tensor().slice_rows(c.before + r, 1));
        decode->attention(one.tensor(), s.q.tensor().slice_rows(r, 1), s.kv.view(), s.heads.vector(),
                          set.view(c.before + c.rows));
        decode.stream->synchronize();

        const Rows ks = stored(s.k, c.k_type), vs = stored(s.v, c.v_type);
        const double tol = 2 * attention_tolerance(s.q.values(), ks, vs, static_cast<int64_t>(c.kv_of_head.size()),
                                                   attended_in(c.k_type, c.v_type));
        EXPECT_TRUE((near<float, float>(batch.row(r), one.row(0), tol)));
    }
}

TEST(AttentionPrefill, RefusesRowsThatAreNotConsecutive) {
    Machine m(Phase::kPrefill);
    Scene s(kCases[1]);
    s.rows.slots.at<int32_t>(7, 0) = 3;
    Operand out(DType::kF32, s.shape.rows, s.q.cols());

    m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), s.rows.view(300));

    EXPECT_TRUE(refused(m, "attention"));
}

TEST(AttentionPrefill, RefusesRowsThatHaveNoTile) {
    for (const int64_t tile : {0, 1, 2}) {
        // One row only: if two rows were in the last tile, either could be the first that finds no tile.
        Scene s({64, 1, {0}, DType::kF16, DType::kF16, 512, 1});
        s.kv.table.at<int64_t>(0, tile) = 0;
        EXPECT_TRUE(refused(
            [&] {
                Machine m(Phase::kPrefill);
                s.attend(m);
            },
            fmt::format("no tile holds slot {} of sequence 0", tile * kTileTokens)));
    }
}

TEST(AttentionPrefill, RefusesRowsBeyondTheBound) {
    Scene s(kCases[5]);
    const auto run = [&](int64_t max_slots) {
        Machine m(Phase::kPrefill);
        Operand out(DType::kF32, s.shape.rows, s.q.cols());
        m->attention(out.tensor(), s.q.tensor(), s.kv.view(), s.heads.vector(), s.rows.view(max_slots));
        m.stream->synchronize();
    };
    EXPECT_NO_THROW(run(707));
    EXPECT_TRUE(refused([&] { run(706); }, "706"));
}

}  // namespace
}  // namespace trireme::test
