/// Products and embeddings of weights in blocks (WeightMatrix) against f64, on every target of the CPU.

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "model/files/dequantise.h"
#include "tests/kernels/block_rows.h"
#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

constexpr KernelLimits kLimits = {
    .max_rows = kPrefillRows, .max_k = 768, .max_n = 256, .heads = 1, .head_dim = 8, .vocab = 0, .blocks = true};

/// Blocks of one type as a matrix without its first `skip` and its last `rest` columns.
WeightMatrix matrix(BlockRowsOf& rows, ActivationType as, int64_t skip = 0, int64_t rest = 0) {
    WeightMatrix w(rows.cols - skip - rest, skip, as);
    w.add(rows.part(as));
    return w;
}

Rows without(const Rows& all, int64_t skip, int64_t rest) {
    Rows some(all.rows, all.cols - skip - rest);
    for (int64_t r = 0; r < some.rows; ++r) {
        for (int64_t c = 0; c < some.cols; ++c) some(r, c) = all(r, c + skip);
    }
    return some;
}

/// Errors of f32 sums are a random walk over products. In 16 bits, each of x is off by half a step, and so is each
/// weight where it is rounded. As whole numbers, each of x is off by half a step, 1/65,024 or 1/254 of the largest of
/// 32: a random walk, 5 sigma.
double tolerance(const Rows& x, const Rows& w, ActivationType as) {
    const double norms = row_norm(x) * row_norm(w);
    double rounding = 0;
    if (as == ActivationType::kF16) rounding = eps_of(DType::kF16) * norms;
    if (as == ActivationType::kBF16) rounding = eps_of(DType::kBF16) * norms;
    if (interleaves(as)) {
        double most = 0;
        for (const double v : x.at) most = std::max(most, std::fabs(v));
        const double step = most / (as == ActivationType::kQ16 ? 32512 : 127);
        rounding = 5 * step / std::sqrt(12) * row_norm(w);
    }
    return 2 * kEps * std::sqrt(static_cast<double>(x.cols) + 4) * norms + rounding + 1e-12;
}

/// Those that the backend multiplies by.
std::vector<ActivationType> activation_types() {
    std::vector<ActivationType> all(kActivationTypes.begin(), kActivationTypes.end());
    std::erase_if(all, [](ActivationType as) { return !multiplies(backend_name(), as); });
    return all;
}
/// What a prefill, or a type that is not interleaved, multiplies by.
ActivationType in_prefill(ActivationType as) {
    return interleaves(as) ? ActivationType::kBF16 : as;
}

class Blocks : public testing::TestWithParam<StoredType> {
  protected:
    StoredType type() const { return GetParam(); }
    int64_t block() const { return layout_of(type()).elements; }
};

TEST_P(Blocks, ProductsMatchTheReference) {
    struct Shape {
        int64_t n, cols, skip, rest;
    };
    for (const auto& [n, cols, skip, rest] :
         {Shape{1, 256, 0, 0}, {61, 512, 8, 0}, {7, 512, 24, 5}, {150, 768, 0, 17}}) {
        BlockRowsOf rows(type(), n, cols, 7);
        const Rows ws = without(rows.values, skip, rest);
        Operand x = Operand(DType::kF32, kMaxRows + 1, ws.cols, 3).randomize(1);
        const Rows xs = x.values(), all = reference::matmul(xs, ws);
        on_every_target([&, n = n, cols = cols, skip = skip, rest = rest] {
            for (const ActivationType as : activation_types()) {
                for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
                    Machine m(phase, 2, kLimits);
                    for (const int64_t count : {1, 7, 64, 65}) {
                        if (count > kMaxRows && phase == Phase::kDecode) continue;
                        Operand out(DType::kF32, count, n, 5);

                        m->matmul(out.tensor(), x.tensor().first_rows(count), matrix(rows, as, skip, rest));
                        m.stream->synchronize();

                        const bool coarse = count > kMaxRows || !can_interleave(type());
                        const Rows want(count, n, {all.at.begin(), all.at.begin() + count * n});
                        ASSERT_TRUE(near(out, want, tolerance(xs, ws, coarse ? in_prefill(as) : as)))
                            << name_of(as) << " n " << n << " cols " << cols << " skip " << skip << " rows " << count
                            << (phase == Phase::kDecode ? "" : " prefill");
                    }
                }
            }
        });
    }
}

TEST_P(Blocks, AProductsRowDoesNotDependOnItsNeighboursOrTheThreads) {
    BlockRowsOf rows(type(), 205, 2 * block(), 5);
    Operand x = Operand(DType::kF32, kMaxRows, rows.cols, 1).randomize(3);
    on_every_target([&] {
        for (const ActivationType as : activation_types()) {
            Operand all(DType::kF32, kMaxRows, rows.rows);
            Machine one(Phase::kDecode, 1, kLimits);
            one->matmul(all.tensor(), x.tensor(), matrix(rows, as));
            one.stream->synchronize();
            for (const int threads : thread_counts()) {
                Machine m(Phase::kDecode, threads, kLimits);
                for (const int64_t count : {1, 2, 3, 4, 6, 17}) {
                    Operand out(DType::kF32, count, rows.rows, 2);
                    m->matmul(out.tensor(), x.tensor().slice_rows(5, count), matrix(rows, as));
                    m.stream->synchronize();
                    for (int64_t r = 0; r < count; ++r) {
                        ASSERT_TRUE(same_bits(out.row(r), all.row(5 + r))) << name_of(as) << " rows " << count;
                    }
                }
            }
        }
    });
}

// A GPU rounds decoded weights to f16 and multiplies them in the order of a plain matrix.
TEST_P(Blocks, AGpusDecodeProductsAreThoseOfWidenedWeights) {
    if (fastest_activations(backend_name()) != ActivationType::kF16) GTEST_SKIP() << "the CPU has its own order";
    BlockRowsOf rows(type(), 43, 2 * block(), 5);
    Operand x = Operand(DType::kF32, kMaxRows, rows.cols, 1).randomize(3), wide(DType::kF16, rows.rows, rows.cols);
    for (int64_t r = 0; r < rows.rows; ++r) {
        for (int64_t c = 0; c < rows.cols; ++c) wide.set(r, c, rows.values(r, c));
    }
    Machine m(Phase::kDecode, 1, kLimits);
    for (const int64_t count : {1, 9, 17, 64}) {
        Operand blocks(DType::kF32, count, rows.rows), plain(DType::kF32, count, rows.rows);
        m->matmul(blocks.tensor(), x.tensor().first_rows(count), matrix(rows, ActivationType::kF16));
        m->matmul(plain.tensor(), x.tensor().first_rows(count), wide.tensor());
        m.stream->synchronize();
        for (int64_t r = 0; r < count; ++r) ASSERT_TRUE(same_bits(blocks.row(r), plain.row(r))) << count << " " << r;
    }
}

TEST_P(Blocks, EmbeddingsAreTheDecodedValues) {
    BlockRowsOf rows(type(), 9, 2 * block(), 3);
    on_every_target([&] {
        for (const ActivationType as : activation_types()) {
            Machine m;
            Operand out(DType::kF32, 3, rows.cols, 1), ids = Operand::ids({8, 0, 3});
            m->embed(out.tensor(), matrix(rows, as), ids.vector());
            m.stream->synchronize();
            const int64_t which[] = {8, 0, 3};
            for (int64_t r = 0; r < 3; ++r) {
                for (int64_t c = 0; c < rows.cols; ++c)
                    ASSERT_EQ(out.get(r, c), rows.values(which[r], c)) << r << " " << c;
            }
        }
    });
}

TEST_P(Blocks, RefuseIdsOutsideTheTable) {
    BlockRowsOf rows(type(), 9, 2 * block(), 3);
    for (const int32_t id : {-1, 9}) {
        Machine m;
        Operand out(DType::kF32, 2, rows.cols), ids = Operand::ids({0, id});
        m->embed(out.tensor(), matrix(rows, activation_types().front()), ids.vector());
        EXPECT_TRUE(refused(m, "embed: id " + std::to_string(id) + " "));
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks, testing::ValuesIn(kQuantised),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// q, k and v of a layer may have three types; slices begin and end anywhere.
TEST(BlockMatrix, HasRowsOfSeveralTypes) {
    BlockRowsOf a(StoredType::kQ4_K, 20, 512, 1), b(StoredType::kQ8_0, 7, 512, 2), c(StoredType::kQ6_K, 12, 512, 3);
    WeightMatrix all(512, 0, ActivationType::kF32);
    for (BlockRowsOf* part : {&a, &b, &c}) all.add(part->part());
    EXPECT_EQ(all.rows(), 39);
    EXPECT_EQ(all.bytes(), a.bytes.size() + b.bytes.size() + c.bytes.size());
    Operand x = Operand(DType::kF32, 5, 512).randomize(4), whole(DType::kF32, 5, 39);
    Machine m(Phase::kDecode, 2, kLimits);
    m->matmul(whole.tensor(), x.tensor(), all);
    m.stream->synchronize();
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 20}, {3, 21}, {20, 7}, {26, 13}, {38, 1}}) {
        Operand out(DType::kF32, 5, n);
        m->matmul(out.tensor(), x.tensor(), all.slice_rows(first, n));
        m.stream->synchronize();
        for (int64_t r = 0; r < 5; ++r) {
            for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.get(r, i), whole.get(r, first + i)) << first << " " << i;
        }
    }
    const Rows xs = x.values(), want = reference::matmul(xs, b.values);
    for (int64_t i = 0; i < 7; ++i) {
        EXPECT_NEAR(whole.get(2, 20 + i), want(2, i), tolerance(xs, b.values, ActivationType::kF32));
    }
}

// A file may leave one of q, k and v as it was.
TEST(BlockMatrix, HasPlainRowsAsWell) {
    BlockRowsOf a(StoredType::kQ4_K, 20, 512, 1), c(StoredType::kQ4_K, 12, 512, 3);
    Operand b = Operand(DType::kF16, 7, 512).randomize(2), x = Operand(DType::kF32, 300, 512).randomize(4);
    WeightMatrix all(512, 0, ActivationType::kF32);
    all.add(a.part());
    all.add({StoredType::kF16, b.tensor().data(), 7, 1024});
    all.add(c.part());
    const Rows xs = x.values();
    const Rows wants[] = {reference::matmul(xs, a.values), reference::matmul(xs, b.values()),
                          reference::matmul(xs, c.values)};
    const bool rounds = multiplied_in(DType::kF16) == DType::kF16;
    const ActivationType plain_as =
        rounds ? ActivationType::kF16 : ActivationType::kF32;  // a GPU rounds activations for plain f16 rows
    const double within[] = {tolerance(xs, a.values, ActivationType::kF32), tolerance(xs, b.values(), plain_as),
                             tolerance(xs, c.values, ActivationType::kF32)};
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const int64_t rows = phase == Phase::kDecode ? 5 : 300;
        Machine m(phase, 2, kLimits);
        Operand out(DType::kF32, rows, 39);
        m->matmul(out.tensor(), x.tensor().first_rows(rows), all);
        m.stream->synchronize();
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < 39; ++i) {
                const int part = i < 20 ? 0 : i < 27 ? 1 : 2;
                const int64_t column = i - (part == 0 ? 0 : part == 1 ? 20 : 27);
                ASSERT_NEAR(out.get(r, i), wants[part](r, column), within[part]) << r << " " << i;
            }
        }
    }
}

TEST_P(Blocks, InterleavedRowsAreReadBack) {
    if (!can_interleave(type())) GTEST_SKIP() << "not interleaved";
    BlockRowsOf rows(type(), 37, 3 * block(), 5);
    const auto bytes = static_cast<int64_t>(layout_of(type()).bytes);
    for (const int64_t before : {0, 5}) {
        rows.tiles(before);
        for (int64_t r = 0; r < rows.rows; ++r) {
            std::vector<std::byte> row(static_cast<size_t>(2 * bytes));
            read_interleaved(type(), rows.interleaved.data(), rows.stride(), before + r, 1, 2, row.data());
            ASSERT_EQ(std::memcmp(row.data(), rows.bytes.data() + r * rows.stride() + bytes, row.size()), 0) << r;
        }
    }
}

// Slices of interleaved rows begin and end inside of tiles: ranks share the rows of a tied embedding.
TEST_P(Blocks, SlicesOfInterleavedRows) {
    if (!can_interleave(type()) || !multiplies(backend_name(), ActivationType::kQ16)) GTEST_SKIP() << "not interleaved";
    BlockRowsOf rows(type(), 83, 2 * block(), 5);
    constexpr int64_t kMany = kMaxRows + 1;  // panels are decoded
    Operand x = Operand(DType::kF32, kMany, rows.cols).randomize(4), whole(DType::kF32, 3, 83);
    const WeightMatrix all = matrix(rows, ActivationType::kQ16);
    Machine m(Phase::kDecode, 2, kLimits), prefill(Phase::kPrefill, 2, kLimits);
    Operand prompt(DType::kF32, kMany, 83);
    m->matmul(whole.tensor(), x.tensor().first_rows(3), all);
    m.stream->synchronize();
    prefill->matmul(prompt.tensor(), x.tensor(), all);
    prefill.stream->synchronize();
    const double within = tolerance(x.values(), rows.values, ActivationType::kF32);
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 83}, {3, 21}, {16, 16}, {31, 40}, {79, 4}, {5, 1}}) {
        const WeightMatrix some = all.slice_rows(1, 82).slice_rows(std::max<int64_t>(0, first - 1), n - (first == 0));
        Operand out(DType::kF32, 3, some.rows(), 2), read(DType::kF32, kMany, some.rows(), 2);
        m->matmul(out.tensor(), x.tensor().first_rows(3), some);
        m.stream->synchronize();
        prefill->matmul(read.tensor(), x.tensor(), some);
        prefill.stream->synchronize();
        for (int64_t r = 0; r < 3; ++r) {
            for (int64_t i = 0; i < some.rows(); ++i) {
                const int64_t at = std::max<int64_t>(1, first) + i;
                ASSERT_EQ(out.get(r, i), whole.get(r, at)) << first << " " << i;
                // The last panel of a prefill adds its steps over k in another order.
                ASSERT_NEAR(read.get(r, i), prompt.get(r, at), within) << first << " " << i;
            }
        }
    }
}

// Sums of whole numbers are exact, and the f32 operations are the same in the same order.
TEST_P(Blocks, Avx2AndVnniGiveTheSameBits) {
    if (backend_name() != "cpu" || byte_dots() != ByteDots::kVnni) GTEST_SKIP() << "no AVX-512 VNNI";
    if (!can_interleave(type())) GTEST_SKIP() << "not interleaved";
    BlockRowsOf rows(type(), 37, 512, 4);
    for (const ActivationType as : {ActivationType::kQ16, ActivationType::kQ8}) {
        for (const int64_t n : {1, 2, 3, 8, 13}) {
            Operand x(DType::kF32, n, 512), vnni(DType::kF32, n, 37), avx2(DType::kF32, n, 37);
            for (int64_t r = 0; r < n; ++r) {
                for (int64_t c = 0; c < 512; ++c) x.set(r, c, std::sin(static_cast<double>(r * 131 + c * c)));
            }
            Machine m(Phase::kDecode, 2, kLimits);
            m->matmul(vnni.tensor(), x.tensor(), matrix(rows, as));
            m.stream->synchronize();
            limit_byte_dots(ByteDots::kAvx2);
            m->matmul(avx2.tensor(), x.tensor(), matrix(rows, as));
            m.stream->synchronize();
            limit_byte_dots(ByteDots::kVnni);
            for (int64_t r = 0; r < n; ++r) {
                for (int64_t i = 0; i < 37; ++i) ASSERT_EQ(vnni.get(r, i), avx2.get(r, i)) << n << " " << r << " " << i;
            }
        }
    }
}

// A NaN among activations is not lost, and numbers too small for a scale are zeros.
TEST(ByteDots, KeepNansAndExtremes) {
    if (!multiplies(backend_name(), ActivationType::kQ16)) GTEST_SKIP() << "no dot products of bytes";
    BlockRowsOf rows(StoredType::kQ4_0, 16, 64, 5);
    for (const ActivationType as : {ActivationType::kQ16, ActivationType::kQ8}) {
        Operand x(DType::kF32, 4, 64), out(DType::kF32, 4, 16);
        for (int64_t c = 0; c < 64; ++c) {
            x.set(0, c, c == 40 ? std::numeric_limits<double>::quiet_NaN() : 1);
            x.set(1, c, c == 3 ? std::numeric_limits<double>::infinity() : 1);
            x.set(2, c, 1e-44);
            x.set(3, c, 3e38);
        }
        Machine m(Phase::kDecode, 1, kLimits);
        m->matmul(out.tensor(), x.tensor(), matrix(rows, as));
        m.stream->synchronize();
        for (int64_t i = 0; i < 16; ++i) {
            EXPECT_TRUE(std::isnan(out.get(0, i)));
            EXPECT_TRUE(std::isnan(out.get(1, i)));
            EXPECT_NEAR(out.get(2, i), 0, 1e-40);
        }
    }
}

TEST(BlockMatrix, RowsThatContinueAPartBelongToIt) {
    BlockRowsOf a(StoredType::kQ8_0, 9, 64, 1);
    WeightMatrix w(64, 0, ActivationType::kF32);
    for (int64_t r = 0; r < 9; ++r) w.add({a.type, a.bytes.data() + r * a.stride(), 1, a.stride()});
    EXPECT_EQ(w.parts().size(), 1U);
    EXPECT_EQ(w.rows(), 9);
    // Interleaved rows do, after whole tiles.
    BlockRowsOf tiled(StoredType::kQ8_0, 48, 64, 1);
    const WeightRows all = tiled.tiles();
    auto* data = static_cast<std::byte*>(all.data);
    WeightMatrix tiles(64, 0, ActivationType::kQ16);
    tiles.add({all.type, data, 32, all.stride, true});
    tiles.add({all.type, data + 32 * all.stride, 10, all.stride, true});
    EXPECT_EQ(tiles.parts().size(), 1U);
    tiles.add({all.type, data + 42 * all.stride, 6, all.stride, true});
    EXPECT_EQ(tiles.parts().size(), 2U);
}

TEST(BlockMatrix, MayHaveNoRows) {
    BlockRowsOf a(StoredType::kQ8_0, 9, 64, 1);
    const WeightMatrix none = matrix(a, ActivationType::kF32).slice_rows(9, 0);
    EXPECT_EQ(none.rows(), 0);
    Machine m(Phase::kDecode, 1, kLimits);
    Operand x = Operand(DType::kF32, 2, 64).randomize(4), out(DType::kF32, 2, 4);
    m->matmul(out.tensor().slice_cols(0, 0), x.tensor(), none);
    m.stream->synchronize();
    EXPECT_TRUE(out.intact());
}

TEST(BlockMatrix, RefusesWhatItCannotHold) {
    BlockRowsOf a(StoredType::kQ4_0, 4, 64, 1);
    EXPECT_TRUE(refused([] { WeightMatrix(-1, 0, ActivationType::kF32); }, "-1 columns"));
    WeightMatrix w(64, 0, ActivationType::kF32);
    for (int i = 0; i < 3; ++i) w.add(a.part());
    EXPECT_TRUE(refused([&] { w.add(a.part()); }, "part 3"));
    EXPECT_TRUE(refused([&] { w.slice_rows(5, 8); }, "[5, 13)"));
    WeightMatrix skipped(56, 8, ActivationType::kF32);
    EXPECT_TRUE(refused([&] { skipped.add({StoredType::kF16, a.bytes.data(), 4, 128}); }, "F16"));
    WeightMatrix plain;
    EXPECT_TRUE(refused([&] { plain.add(a.part()); }, "Q4_0"));
}

}  // namespace
}  // namespace trireme::test
