/// Products and embeddings of weights in blocks (WeightMatrix) against f64, on every target of the CPU.

#include <cmath>
#include <vector>

#include "kernels/cpu/bf16_dots.h"
#include "model/files/dequantise.h"
#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

constexpr StoredType kTypes[] = {StoredType::kQ4_0,  StoredType::kQ4_1,   StoredType::kQ5_0,  StoredType::kQ5_1,
                                 StoredType::kQ8_0,  StoredType::kIQ4_NL, StoredType::kMXFP4, StoredType::kQ2_K,
                                 StoredType::kQ3_K,  StoredType::kQ4_K,   StoredType::kQ5_K,  StoredType::kQ6_K,
                                 StoredType::kIQ4_XS};

/// Positions of f16 scales in a block.
std::vector<size_t> halves(StoredType t) {
    switch (t) {
        case StoredType::kQ4_1:
        case StoredType::kQ5_1:
        case StoredType::kQ4_K:
        case StoredType::kQ5_K:
            return {0, 2};
        case StoredType::kQ2_K:
            return {80, 82};
        case StoredType::kQ3_K:
            return {108};
        case StoredType::kQ6_K:
            return {208};
        case StoredType::kMXFP4:
            return {};
        default:
            return {0};
    }
}

/// Rows of random blocks, of which every bit may be set, with scales near 1/64 and of both signs.
struct BlockRowsOf {
    BlockRowsOf(StoredType t, int64_t n, int64_t columns, uint32_t seed)
        : type(t), rows(n), cols(columns), bytes(static_cast<size_t>(n * stride())), values(n, columns) {
        uint32_t state = seed * 2654435761u + 1;
        const auto next = [&] { return state = state * 1664525u + 1013904223u; };
        for (auto& b : bytes) b = static_cast<std::byte>(next() >> 24);
        const BlockLayout l = layout_of(t);
        for (size_t at = 0; at < bytes.size(); at += l.bytes) {
            for (const size_t h : halves(t)) {
                const float scale = (static_cast<float>(next() >> 20) / 4096 + 0.5F) / 64;
                const f16 half(next() >> 31 != 0 ? scale : -scale);
                std::memcpy(bytes.data() + at + h, &half.bits, 2);
            }
            if (t == StoredType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + (next() >> 29));
        }
        std::vector<float> row(static_cast<size_t>(columns));
        for (int64_t r = 0; r < n; ++r) {
            dequantise(t, bytes.data() + static_cast<size_t>(r * stride()), columns, row.data());
            for (int64_t c = 0; c < columns; ++c) values(r, c) = static_cast<double>(row[static_cast<size_t>(c)]);
        }
    }
    int64_t stride() const {
        const BlockLayout l = layout_of(type);
        return cols / l.elements * static_cast<int64_t>(l.bytes);
    }
    WeightRows part() { return {type, bytes.data(), rows, stride()}; }

    StoredType type;
    int64_t rows, cols;
    std::vector<std::byte> bytes;
    Rows values;
};

/// Blocks of one type as a matrix without its first `skip` columns.
WeightMatrix matrix(BlockRowsOf& rows, DType as, int64_t skip = 0) {
    WeightMatrix w(rows.cols - skip, skip, as);
    w.add(rows.part());
    return w;
}

Rows without(const Rows& all, int64_t skip) {
    Rows some(all.rows, all.cols - skip);
    for (int64_t r = 0; r < some.rows; ++r) {
        for (int64_t c = 0; c < some.cols; ++c) some(r, c) = all(r, c + skip);
    }
    return some;
}

/// Errors of f32 sums are a random walk over products. In bf16, each of x is off by half a step, and so is each weight
/// where it is rounded.
double tolerance(const Rows& x, const Rows& w, DType as) {
    const double norms = row_norm(x) * row_norm(w);
    return 2 * kEps * std::sqrt(static_cast<double>(x.cols) + 4) * norms +
           (as == DType::kBF16 ? eps_of(as) * norms : 0) + 1e-12;
}

class Blocks : public testing::TestWithParam<StoredType> {
  protected:
    void SetUp() override {
        if (!multiplies_blocks(backend_name())) GTEST_SKIP() << "blocks are widened on this backend";
    }
    StoredType type() const { return GetParam(); }
    int64_t block() const { return layout_of(type()).elements; }
};

TEST_P(Blocks, ProductsMatchTheReference) {
    for (const auto& [n, blocks, skip] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 0}, {13, 3, 0}, {61, 2, 8}}) {
        BlockRowsOf rows(type(), n, blocks * block(), 7);
        const Rows ws = without(rows.values, skip);
        Operand x = Operand(DType::kF32, kMaxRows, ws.cols, 3).randomize(1);
        const Rows xs = x.values(), all = reference::matmul(xs, ws);
        on_every_target([&, n = n, skip = skip] {
            for (const DType as : {DType::kF32, DType::kBF16}) {
                for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
                    Machine m(phase);
                    for (const int64_t count : {1, 2, 7, 64}) {
                        Operand out(DType::kF32, count, n, 5);

                        m->matmul(out.tensor(), x.tensor().first_rows(count), matrix(rows, as, skip));
                        m.stream->synchronize();

                        const Rows want(count, n, {all.at.begin(), all.at.begin() + count * n});
                        ASSERT_TRUE(near(out, want, tolerance(xs, ws, as)))
                            << name_of(as) << " n " << n << " blocks " << blocks << " skip " << skip << " rows "
                            << count << (phase == Phase::kDecode ? "" : " prefill");
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
        for (const DType as : {DType::kF32, DType::kBF16}) {
            Operand all(DType::kF32, kMaxRows, rows.rows);
            Machine one(Phase::kDecode, 1);
            one->matmul(all.tensor(), x.tensor(), matrix(rows, as));
            one.stream->synchronize();
            for (const int threads : thread_counts()) {
                Machine m(Phase::kDecode, threads);
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

TEST_P(Blocks, EmbeddingsAreTheDecodedValues) {
    BlockRowsOf rows(type(), 9, 2 * block(), 3);
    on_every_target([&] {
        Machine m;
        Operand out(DType::kF32, 3, rows.cols, 1), ids = Operand::ids({8, 0, 3});
        m->embed(out.tensor(), matrix(rows, DType::kBF16), ids.vector());
        m.stream->synchronize();
        const int64_t which[] = {8, 0, 3};
        for (int64_t r = 0; r < 3; ++r) {
            for (int64_t c = 0; c < rows.cols; ++c) ASSERT_EQ(out.get(r, c), rows.values(which[r], c)) << r << " " << c;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks, testing::ValuesIn(kTypes),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// q, k and v of a layer may have three types; slices begin and end anywhere.
TEST(BlockMatrix, HasRowsOfSeveralTypes) {
    if (!multiplies_blocks(backend_name())) GTEST_SKIP() << "blocks are widened on this backend";
    BlockRowsOf a(StoredType::kQ4_K, 20, 512, 1), b(StoredType::kQ8_0, 7, 512, 2), c(StoredType::kQ6_K, 12, 512, 3);
    WeightMatrix all(512, 0, DType::kF32);
    for (BlockRowsOf* part : {&a, &b, &c}) all.add(part->part());
    EXPECT_EQ(all.rows(), 39);
    EXPECT_EQ(all.bytes(), a.bytes.size() + b.bytes.size() + c.bytes.size());
    Operand x = Operand(DType::kF32, 5, 512).randomize(4), whole(DType::kF32, 5, 39);
    Machine m;
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
        EXPECT_NEAR(whole.get(2, 20 + i), want(2, i), tolerance(xs, b.values, DType::kF32));
    }
}

TEST(BlockMatrix, RefusesWhatItCannotHold) {
    BlockRowsOf a(StoredType::kQ4_0, 4, 64, 1);
    EXPECT_TRUE(refused([] { WeightMatrix(64, 0, DType::kF16); }, "f16"));
    WeightMatrix w(64, 0, DType::kF32);
    EXPECT_TRUE(refused([&] { w.add({StoredType::kF16, a.bytes.data(), 4, 128}); }, "F16"));
    for (int i = 0; i < 3; ++i) w.add(a.part());
    EXPECT_TRUE(refused([&] { w.add(a.part()); }, "part 3"));
    EXPECT_TRUE(refused([&] { w.slice_rows(5, 8); }, "[5, 13)"));
}

}  // namespace
}  // namespace trireme::test
