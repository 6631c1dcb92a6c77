#include <limits>

#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

// [n, k]: single elements, primes, whole tiles, sizes that no tile divides, and the shapes of a model and its halves.
constexpr int64_t kShapes[][2] = {{1, 1},   {1, 8},    {12, 16},  {13, 7},    {31, 33},  {5, 1000},
                                  {24, 64}, {97, 576}, {100, 40}, {192, 320}, {60, 768}, {577, 1536}};

/// Elementwise bound: rounding errors of partial sums are a random walk over products, which the norms bound.
double tolerance(const Rows& x, const Rows& w) {
    return kEps * std::sqrt(static_cast<double>(x.cols) + 4) * row_norm(x) * row_norm(w);
}

TEST(MatmulDecode, MatchesTheReferenceOnOddShapesAndStrides) {
    for (const DType type : kFloatTypes) {
        for (const auto& [n, k] : kShapes) {
            Operand x = Operand(DType::kF32, kMaxRows, k, 3).randomize(1), w = Operand(type, n, k).randomize(2);
            const Rows xs = stored(x, multiplied_in(type)), ws = w.values(), all = reference::matmul(xs, ws);
            on_every_target([&, n = n, k = k] {
                Machine m;
                for (const int64_t rows : row_counts()) {
                    if (rows > 8 && rows < kMaxRows) continue;
                    Operand out(DType::kF32, rows, n, 5);

                    m->matmul(out.tensor(), x.tensor().first_rows(rows), w.tensor());
                    m.stream->synchronize();

                    const Rows want(rows, n, {all.at.begin(), all.at.begin() + rows * n});
                    ASSERT_TRUE(near(out, want, tolerance(xs, ws)))
                        << name_of(type) << " n " << n << " k " << k << " rows " << rows;
                }
            });
        }
    }
}

TEST(MatmulDecode, CarriesEveryStoredValueExactly) {
    // x is a unit vector: out must be the stored weight itself, subnormals and both zeros' magnitude included.
    on_every_target([] {
        Machine m;
        for (const DType type : {DType::kF16, DType::kBF16}) {
            Operand w(type, 1 << 10, 64), x(DType::kF32, 1, 64), out(DType::kF32, 1, 1 << 10);
            for (int64_t i = 0; i < 1 << 16; ++i) {
                uint16_t bits = static_cast<uint16_t>(i);
                const uint16_t exponent = type == DType::kF16 ? 0x7c00 : 0x7f80;
                if ((bits & exponent) == exponent) bits = 0;  // infinity or NaN times zero would be NaN
                w.at<f16>(i / 64, i % 64) = f16::from_bits(bits);
            }
            for (const int64_t at : {0, 17, 63}) {
                for (int64_t c = 0; c < 64; ++c) x.set(0, c, c == at ? 1 : 0);

                m->matmul(out.tensor(), x.tensor(), w.tensor());
                m.stream->synchronize();

                for (int64_t r = 0; r < 1 << 10; ++r) ASSERT_EQ(out.get(0, r), w.get(r, at)) << name_of(type);
            }
        }
    });
}

TEST(MatmulDecode, ARowDoesNotDependOnItsNeighboursOrTheThreads) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            for (const auto& [n, k] : {std::pair<int64_t, int64_t>{61, 83}, {25, 576}, {400, 83}}) {
                Operand x = Operand(DType::kF32, kMaxRows, k, 1).randomize(3), w = Operand(type, n, k).randomize(4);
                Operand all(DType::kF32, kMaxRows, n);
                Machine one_thread(Phase::kDecode, 1);
                one_thread->matmul(all.tensor(), x.tensor(), w.tensor());
                one_thread.stream->synchronize();

                for (const int threads : thread_counts()) {
                    Machine m(Phase::kDecode, threads);
                    for (const int64_t rows : row_counts()) {
                        const int64_t first = (rows * 7) % (kMaxRows - rows + 1);
                        Operand out(DType::kF32, rows, n, 2);

                        m->matmul(out.tensor(), x.tensor().slice_rows(first, rows), w.tensor());
                        m.stream->synchronize();

                        for (int64_t r = 0; r < rows; ++r) {
                            ASSERT_TRUE(same_bits(out.row(r), all.row(first + r)))
                                << name_of(type) << " rows " << rows << " row " << r << " threads " << threads;
                        }
                    }
                }
            }
        }
    });
}

TEST(MatmulDecode, KeepsInfinityAndNanInTheirRow) {
    Machine m;
    Operand x = Operand(DType::kF32, 3, 50).randomize(5), w = Operand(DType::kF16, 20, 50).randomize(6);
    Operand out(DType::kF32, 3, 20);
    x.set(0, 49, std::numeric_limits<double>::quiet_NaN());
    x.set(2, 0, std::numeric_limits<double>::infinity());

    m->matmul(out.tensor(), x.tensor(), w.tensor());
    m.stream->synchronize();

    for (int64_t n = 0; n < 20; ++n) {
        EXPECT_TRUE(std::isnan(out.get(0, n)));
        EXPECT_TRUE(std::isfinite(out.get(1, n)));
        EXPECT_TRUE(std::isinf(out.get(2, n)));
    }
}

TEST(MatmulDecode, ANanWeightStaysInItsColumn) {
    for (const DType type : kFloatTypes) {
        for (const int64_t k : {50, 64, 77}) {  // rows of weights follow each other without a gap
            Machine m;
            Operand x = Operand(DType::kF32, 3, k).randomize(5), w = Operand(type, 20, k).randomize(6);
            Operand out(DType::kF32, 3, 20);
            w.set(7, 0, std::numeric_limits<double>::quiet_NaN());
            w.set(9, k - 1, std::numeric_limits<double>::infinity());

            m->matmul(out.tensor(), x.tensor(), w.tensor());
            m.stream->synchronize();

            for (int64_t r = 0; r < 3; ++r) {
                for (int64_t n = 0; n < 20; ++n) {
                    EXPECT_EQ(std::isfinite(out.get(r, n)), n != 7 && n != 9) << name_of(type) << " " << k << " " << n;
                }
            }
        }
    }
}

// A rank without feed-forward columns multiplies by a weight [n, 0]: the result is zero, and the all-reduce adds the
// others' results.
TEST(MatmulDecode, GivesZeroForWeightsWithoutColumns) {
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        for (const DType type : kFloatTypes) {
            on_every_target([&] {
                Machine m(phase);
                Operand x(DType::kF32, 3, 0, 2), w(type, 17, 0), out = Operand(DType::kF32, 3, 17, 4).randomize(1);

                m->matmul(out.tensor(), x.tensor(), w.tensor());
                m.stream->synchronize();

                EXPECT_TRUE(near(out, Rows(3, 17), 0)) << name_of(type);
                EXPECT_TRUE(out.intact());
            });
        }
    }
}

TEST(MatmulDecode, RefusesWrongOperands) {
    Machine m;
    Operand x(DType::kF32, 2, 8), w(DType::kF16, 5, 8), out(DType::kF32, 2, 5), narrow(DType::kF32, 2, 4);
    Operand strided(DType::kF16, 5, 8, 1), ids(DType::kI32, 5, 8), many(DType::kF32, kPrefillRows + 1, 8);
    Operand many_out(DType::kF32, kPrefillRows + 1, 5);

    EXPECT_THROW(m->matmul(narrow.tensor(), x.tensor(), w.tensor()), Error);
    EXPECT_THROW(m->matmul(out.tensor(), narrow.tensor(), w.tensor()), Error);
    EXPECT_THROW(m->matmul(out.tensor(), x.tensor(), strided.tensor()), Error);
    EXPECT_THROW(m->matmul(out.tensor(), x.tensor(), ids.tensor()), Error);
    EXPECT_THROW(m->matmul(x.tensor(), x.tensor(), w.tensor()), Error);
    EXPECT_THROW(m->matmul(many_out.tensor(), many.tensor(), w.tensor()), Error);
}

}  // namespace
}  // namespace trireme::test
