// embed, rmsnorm, rope, swiglu, add, gather_rows: one row at a time, against the f64 reference.

#include <limits>

#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

constexpr int64_t kShapes[][2] = {{1, 1}, {1, 8}, {3, 31}, {2, 64}, {5, 97}, {64, 576}, {300, 577}};

TEST(Embed, WidensTheNamedRows) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            Machine m;
            Operand table = Operand(type, 7, 41, 3).randomize(1), ids = Operand::ids({6, 0, 3, 3}),
                    out(DType::kF32, 4, 41, 2);

            m->embed(out.tensor(), table.tensor(), ids.vector());
            m.stream->synchronize();

            EXPECT_TRUE(near(out, reference::embed(table.values(), {6, 0, 3, 3}), 0)) << name_of(type);
        }
    });
}

TEST(Embed, RefusesIdsOutsideTheTable) {
    for (const int32_t id : {-1, 7}) {
        Machine m;
        Operand table = Operand(DType::kF16, 7, 8).randomize(1), ids = Operand::ids({0, id}), out(DType::kF32, 2, 8);

        m->embed(out.tensor(), table.tensor(), ids.vector());

        EXPECT_TRUE(refused(m, "embed: id " + std::to_string(id) + " "));
    }
}

TEST(Rmsnorm, MatchesTheReferenceOnOddShapesAndStrides) {
    on_every_target([] {
        for (const auto& [rows, n] : kShapes) {
            Machine m;
            Operand x = Operand(DType::kF32, rows, n, 5).randomize(2), w = Operand(DType::kF32, 1, n).randomize(3);
            Operand out(DType::kF32, rows, n, 3);
            const Rows want = reference::rmsnorm(x.values(), w.values(), 1e-5);

            m->rmsnorm(out.tensor(), x.tensor(), w.vector(), 1e-5f);
            m.stream->synchronize();

            // The sum of squares is positive: its error is at most n eps / lanes; the rest is a few roundings.
            EXPECT_TRUE(near(out, want, kEps * (4 + std::sqrt(static_cast<double>(n)) / 4) * largest(want))) << n;
        }
    });
}

TEST(Rmsnorm, GroupsOfColumnsHaveMeansOfTheirOwn) {
    on_every_target([] {
        for (const auto& [groups, n] : {std::pair(1, 8), {3, 16}, {5, 24}, {2, 128}}) {
            Machine m;
            Operand x = Operand(DType::kF32, 4, groups * n, 7).randomize(21),
                    w = Operand(DType::kF32, 1, n).randomize(22);
            Rows want = x.values();
            for (int g = 0; g < groups; ++g) {
                Rows group(4, n);
                for (int64_t r = 0; r < 4; ++r) {
                    for (int64_t i = 0; i < n; ++i) group(r, i) = want(r, g * n + i);
                }
                const Rows normed = reference::rmsnorm(group, w.values(), 1e-2);
                for (int64_t r = 0; r < 4; ++r) {
                    for (int64_t i = 0; i < n; ++i) want(r, g * n + i) = normed(r, i);
                }
            }

            m->rmsnorm(x.tensor(), x.tensor(), w.vector(), 1e-2f);
            m.stream->synchronize();

            EXPECT_TRUE(near(x, want, kEps * 12 * largest(want))) << groups << " groups of " << n;
        }
    });
    Machine m;
    Operand x(DType::kF32, 2, 40), w(DType::kF32, 1, 16);
    EXPECT_THROW(m->rmsnorm(x.tensor(), x.tensor(), w.vector(), 1e-5f), Error);
}

TEST(Rmsnorm, MayWriteOverItsInput) {
    Machine m;
    Operand x = Operand(DType::kF32, 3, 100, 4).randomize(4), w = Operand(DType::kF32, 1, 100).randomize(5);
    const Rows want = reference::rmsnorm(x.values(), w.values(), 1e-6);

    m->rmsnorm(x.tensor(), x.tensor(), w.vector(), 1e-6f);
    m.stream->synchronize();

    EXPECT_TRUE(near(x, want, kEps * 8 * largest(want)));
}

TEST(Rmsnorm, KeepsZeroRowsZeroAndHugeRowsFinite) {
    Machine m;
    Operand x(DType::kF32, 2, 16), w = Operand(DType::kF32, 1, 16).randomize(6), out(DType::kF32, 2, 16);
    for (int64_t c = 0; c < 16; ++c) {
        x.set(0, c, 0);
        x.set(1, c, c == 3 ? 1e18 : 1);
    }

    m->rmsnorm(out.tensor(), x.tensor(), w.vector(), 1e-5f);
    m.stream->synchronize();

    const Rows want = reference::rmsnorm(x.values(), w.values(), 1e-5);
    EXPECT_TRUE(near(out, want, kEps * 8 * largest(want)));
}

TEST(Rmsnorm, LetsNanThroughInItsRowAlone) {
    Machine m;
    Operand x = Operand(DType::kF32, 2, 40).randomize(7), w = Operand(DType::kF32, 1, 40).randomize(8);
    Operand out(DType::kF32, 2, 40);
    x.set(0, 39, std::numeric_limits<double>::quiet_NaN());

    m->rmsnorm(out.tensor(), x.tensor(), w.vector(), 1e-5f);
    m.stream->synchronize();

    EXPECT_TRUE(std::isnan(out.get(0, 0)));
    EXPECT_TRUE(std::isfinite(out.get(1, 0)));
}

TEST(Rmsnorm, RefusesWrongWeight) {
    Machine m;
    Operand x(DType::kF32, 2, 8), w(DType::kF32, 1, 9), f16_weight(DType::kF16, 1, 8);

    EXPECT_THROW(m->rmsnorm(x.tensor(), x.tensor(), w.vector(), 1e-5f), Error);
    EXPECT_THROW(m->rmsnorm(x.tensor(), x.tensor(), f16_weight.vector(), 1e-5f), Error);
}

TEST(Rope, TurnsPairsHalfAHeadApart) {
    on_every_target([] {
        for (const int64_t dim : {8, 40, 64, 80, 96, 128, 1024}) {
            Machine m;
            Operand x = Operand(DType::kF32, 5, 3 * dim, 7).randomize(9), table(DType::kF32, 5, dim, 1);
            Normal normal(10);
            for (int64_t r = 0; r < 5; ++r) {
                for (int64_t i = 0; i < dim / 2; ++i) {
                    const double angle = 10 * normal();
                    table.set(r, i, std::cos(angle));
                    table.set(r, dim / 2 + i, std::sin(angle));
                }
            }
            const Rows want = reference::rope(x.values(), table.values(), dim);

            m->rope(x.tensor(), table.tensor(), dim);
            m.stream->synchronize();

            EXPECT_TRUE(near(x, want, 2 * kEps * largest(want))) << dim;
        }
    });
}

TEST(Rope, RefusesAHeadThatDoesNotDivideTheRow) {
    Machine m;
    Operand x(DType::kF32, 1, 24), table(DType::kF32, 1, 16);

    EXPECT_THROW(m->rope(x.tensor(), table.tensor(), 16), Error);
    EXPECT_THROW(m->rope(x.tensor(), table.tensor(), 12), Error);
}

TEST(Rope, RefusesRowsThatAreTooLongToCount) {
    Machine m;
    constexpr int64_t kDim = 8;
    const Tensor x(&m, DType::kF32, Shape{1, kMostRowElements + kDim}), table(&m, DType::kF32, Shape{1, kDim});

    EXPECT_TRUE(refused([&] { m->rope(x, table, kDim); }, "rope: rows of 1073741832 elements"));
}

TEST(Swiglu, MatchesTheReferenceOnOddShapesAndStrides) {
    on_every_target([] {
        for (const auto& [rows, n] : kShapes) {
            Machine m;
            Operand x = Operand(DType::kF32, rows, 2 * n, 5).randomize(11, 4), out(DType::kF32, rows, n, 1);
            const Rows want = reference::swiglu(x.values());

            m->swiglu(out.tensor(), x.tensor());
            m.stream->synchronize();

            EXPECT_TRUE(near(out, want, 4 * kEps * largest(want))) << n;  // exp 1 ulp, add, divide, multiply
        }
    });
}

TEST(Swiglu, SaturatesWhereExpOverflows) {
    on_every_target([] {
        Machine m;
        Operand x(DType::kF32, 1, 8), out(DType::kF32, 1, 4);
        const double gates[] = {-200, -90, 200, 0};
        for (int64_t i = 0; i < 4; ++i) {
            x.set(0, i, gates[i]);
            x.set(0, 4 + i, 2);
        }

        m->swiglu(out.tensor(), x.tensor());
        m.stream->synchronize();

        EXPECT_TRUE(near(out, Rows(1, 4, {0, 0, 400, 0}), 1e-30));
    });
}

// Operations of a rank without feed-forward columns: there is nothing to do, and no launch of 0 blocks.
TEST(Rowwise, TakesRowsWithoutColumns) {
    on_every_target([] {
        Machine m;
        Operand nothing(DType::kF32, 3, 0, 4), other(DType::kF32, 3, 0, 7);

        m->swiglu(nothing.tensor(), other.tensor());
        m->add(nothing.tensor(), other.tensor());
        m.stream->synchronize();

        EXPECT_TRUE(nothing.intact());
    });
}

TEST(Add, AddsStridedRows) {
    on_every_target([] {
        for (const auto& [rows, n] : kShapes) {
            Machine m;
            Operand x = Operand(DType::kF32, rows, n, 2).randomize(12),
                    y = Operand(DType::kF32, rows, n, 9).randomize(13);
            const Rows want = reference::add(x.values(), y.values());

            m->add(x.tensor(), y.tensor());
            m.stream->synchronize();

            EXPECT_TRUE(near(x, want, kEps * largest(want))) << n;
        }
    });
}

TEST(Add, AddsABiasToEveryRow) {
    on_every_target([] {
        for (const auto& [rows, n] : kShapes) {
            Machine m;
            Operand x = Operand(DType::kF32, rows, n, 2).randomize(12), bias = Operand(DType::kF32, 1, n).randomize(13);
            Rows all(rows, n);
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t i = 0; i < n; ++i) all(r, i) = bias.values()(0, i);
            }
            const Rows want = reference::add(x.values(), all);

            m->add(x.tensor(), bias.tensor());
            m.stream->synchronize();

            EXPECT_TRUE(near(x, want, kEps * largest(want))) << n;
        }
    });
    Machine m;
    Operand x(DType::kF32, 3, 8), two(DType::kF32, 2, 8);
    EXPECT_THROW(m->add(x.tensor(), two.tensor()), Error);
}

TEST(GatherRows, CopiesTheNamedRows) {
    Machine m;
    Operand x = Operand(DType::kF32, 5, 33, 2).randomize(14), ids = Operand::ids({4, 4, 0}), out(DType::kF32, 3, 33, 1);

    m->gather_rows(out.tensor(), x.tensor(), ids.vector());
    m.stream->synchronize();

    EXPECT_TRUE(near(out, reference::gather_rows(x.values(), {4, 4, 0}), 0));
}

TEST(GatherRows, RefusesARowThatIsNotThere) {
    for (const int32_t row : {-1, 5}) {
        Machine m;
        Operand x = Operand(DType::kF32, 5, 8).randomize(15), ids = Operand::ids({0, row}), out(DType::kF32, 2, 8);

        m->gather_rows(out.tensor(), x.tensor(), ids.vector());

        EXPECT_TRUE(refused(m, "gather_rows: row " + std::to_string(row) + " "));
    }
}

// A row's bits are the same alone and among others: large inputs are split over threads, small ones are not.
TEST(Rowwise, ARowDoesNotDependOnItsNeighbours) {
    on_every_target([] {
        constexpr int64_t kRows = 200, kCols = 1001;
        Operand x = Operand(DType::kF32, kRows, 2 * kCols).randomize(16),
                w = Operand(DType::kF32, 1, kCols).randomize(17);
        Operand many(DType::kF32, kRows, kCols), one(DType::kF32, 1, kCols);
        Machine m;
        const auto run = [&](Operand& out, int64_t row, int64_t rows) {
            const Tensor in = x.tensor().slice_rows(row, rows);
            m->swiglu(out.tensor(), in);
            m->add(out.tensor(), in.slice_cols(kCols, kCols));
            m->rmsnorm(out.tensor(), out.tensor(), w.vector(), 1e-5f);
            m.stream->synchronize();
        };

        run(many, 0, kRows);

        for (const int64_t r : {int64_t{0}, int64_t{63}, kRows - 1}) {
            run(one, r, 1);
            EXPECT_TRUE(same_bits(one.row(0), many.row(r))) << r;
        }
    });
}

}  // namespace
}  // namespace trireme::test
