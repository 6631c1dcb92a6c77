/// Products and embeddings of weights in blocks (WeightMatrix) against f64, on every target of the CPU.

#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/bf16_dots.h"
#include "model/files/dequantise.h"
#include "tests/kernels/harness.h"
#include "tests/support/stored_types.h"

namespace trireme::test {
namespace {

/// Rows of random blocks, of which every bit may be set, with scales near 1/64 and of both signs.
struct BlockRowsOf {
    BlockRowsOf(StoredType t, int64_t n, int64_t columns, uint32_t seed)
        : type(t), rows(n), cols(columns), bytes(static_cast<size_t>(n * stride())), values(n, columns) {
        uint32_t state = seed * 2654435761u + 1;
        const auto next = [&] { return state = state * 1664525u + 1013904223u; };
        for (auto& b : bytes) b = static_cast<std::byte>(next() >> 24);
        const BlockLayout l = layout_of(t);
        for (size_t at = 0; at < bytes.size(); at += l.bytes) {
            for (const int h : {halves_of(t).first, halves_of(t).second}) {
                if (h < 0) continue;
                const float scale = (static_cast<float>(next() >> 20) / 4096 + 0.5F) / 64;
                const f16 half(next() >> 31 != 0 ? scale : -scale);
                std::memcpy(bytes.data() + at + static_cast<size_t>(h), &half.bits, 2);
            }
            if (t == StoredType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + (next() >> 29));
            if (t != StoredType::kInt4 && t != StoredType::kFP8) continue;
            const float scale = (static_cast<float>(next() >> 20) / 4096 + 0.5F) / (t == StoredType::kFP8 ? 4096 : 64);
            uint32_t word = std::bit_cast<uint32_t>(next() >> 31 != 0 ? scale : -scale) & 0xffffff00u;
            if (t == StoredType::kInt4) word |= (next() >> 16) % 17;  // the zero point
            std::memcpy(bytes.data() + at, &word, 4);
            for (size_t i = 4; i < l.bytes && t == StoredType::kFP8; ++i) {
                if ((bytes[at + i] & std::byte{0x7f}) == std::byte{0x7f}) bytes[at + i] = std::byte{3};  // a NaN
            }
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
    BackendVector<std::byte> bytes;
    Rows values;
};

constexpr KernelLimits kLimits = {
    .max_rows = kPrefillRows, .max_k = 768, .max_n = 256, .heads = 1, .head_dim = 8, .vocab = 0, .blocks = true};

/// Blocks of one type as a matrix without its first `skip` and its last `rest` columns.
WeightMatrix matrix(BlockRowsOf& rows, DType as, int64_t skip = 0, int64_t rest = 0) {
    WeightMatrix w(rows.cols - skip - rest, skip, as);
    w.add(rows.part());
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
/// weight where it is rounded.
double tolerance(const Rows& x, const Rows& w, DType as) {
    const double norms = row_norm(x) * row_norm(w);
    return 2 * kEps * std::sqrt(static_cast<double>(x.cols) + 4) * norms +
           (as == DType::kF32 ? 0 : eps_of(as) * norms) + 1e-12;
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
        Operand x = Operand(DType::kF32, kMaxRows, ws.cols, 3).randomize(1);
        const Rows xs = x.values(), all = reference::matmul(xs, ws);
        on_every_target([&, n = n, cols = cols, skip = skip, rest = rest] {
            for (const DType as : {DType::kF32, rounded_activations(backend_name())}) {
                for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
                    Machine m(phase, 2, kLimits);
                    for (const int64_t count : {1, 7, 64}) {
                        Operand out(DType::kF32, count, n, 5);

                        m->matmul(out.tensor(), x.tensor().first_rows(count), matrix(rows, as, skip, rest));
                        m.stream->synchronize();

                        const Rows want(count, n, {all.at.begin(), all.at.begin() + count * n});
                        ASSERT_TRUE(near(out, want, tolerance(xs, ws, as)))
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
        for (const DType as : {DType::kF32, rounded_activations(backend_name())}) {
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
    if (rounded_activations(backend_name()) != DType::kF16) GTEST_SKIP() << "the CPU has its own order";
    BlockRowsOf rows(type(), 43, 2 * block(), 5);
    Operand x = Operand(DType::kF32, kMaxRows, rows.cols, 1).randomize(3), wide(DType::kF16, rows.rows, rows.cols);
    for (int64_t r = 0; r < rows.rows; ++r) {
        for (int64_t c = 0; c < rows.cols; ++c) wide.set(r, c, rows.values(r, c));
    }
    Machine m(Phase::kDecode, 1, kLimits);
    for (const int64_t count : {1, 9, 17, 64}) {
        Operand blocks(DType::kF32, count, rows.rows), plain(DType::kF32, count, rows.rows);
        m->matmul(blocks.tensor(), x.tensor().first_rows(count), matrix(rows, DType::kF16));
        m->matmul(plain.tensor(), x.tensor().first_rows(count), wide.tensor());
        m.stream->synchronize();
        for (int64_t r = 0; r < count; ++r) ASSERT_TRUE(same_bits(blocks.row(r), plain.row(r))) << count << " " << r;
    }
}

TEST_P(Blocks, EmbeddingsAreTheDecodedValues) {
    BlockRowsOf rows(type(), 9, 2 * block(), 3);
    on_every_target([&] {
        Machine m;
        Operand out(DType::kF32, 3, rows.cols, 1), ids = Operand::ids({8, 0, 3});
        m->embed(out.tensor(), matrix(rows, DType::kF32), ids.vector());
        m.stream->synchronize();
        const int64_t which[] = {8, 0, 3};
        for (int64_t r = 0; r < 3; ++r) {
            for (int64_t c = 0; c < rows.cols; ++c) ASSERT_EQ(out.get(r, c), rows.values(which[r], c)) << r << " " << c;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Types, Blocks, testing::ValuesIn(kQuantised),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// q, k and v of a layer may have three types; slices begin and end anywhere.
TEST(BlockMatrix, HasRowsOfSeveralTypes) {
    BlockRowsOf a(StoredType::kQ4_K, 20, 512, 1), b(StoredType::kQ8_0, 7, 512, 2), c(StoredType::kQ6_K, 12, 512, 3);
    WeightMatrix all(512, 0, DType::kF32);
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
        EXPECT_NEAR(whole.get(2, 20 + i), want(2, i), tolerance(xs, b.values, DType::kF32));
    }
}

// A file may leave one of q, k and v as it was.
TEST(BlockMatrix, HasPlainRowsAsWell) {
    BlockRowsOf a(StoredType::kQ4_K, 20, 512, 1), c(StoredType::kQ4_K, 12, 512, 3);
    Operand b = Operand(DType::kF16, 7, 512).randomize(2), x = Operand(DType::kF32, 300, 512).randomize(4);
    WeightMatrix all(512, 0, DType::kF32);
    all.add(a.part());
    all.add({StoredType::kF16, b.tensor().data(), 7, 1024});
    all.add(c.part());
    const Rows xs = x.values();
    const Rows wants[] = {reference::matmul(xs, a.values), reference::matmul(xs, b.values()),
                          reference::matmul(xs, c.values)};
    const DType plain_as = multiplied_in(DType::kF16);  // a GPU rounds activations for plain f16 rows
    const double within[] = {tolerance(xs, a.values, DType::kF32), tolerance(xs, b.values(), plain_as),
                             tolerance(xs, c.values, DType::kF32)};
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

TEST(BlockMatrix, RowsThatContinueAPartBelongToIt) {
    BlockRowsOf a(StoredType::kQ8_0, 9, 64, 1);
    WeightMatrix w(64, 0, DType::kF32);
    for (int64_t r = 0; r < 9; ++r) w.add({a.type, a.bytes.data() + r * a.stride(), 1, a.stride()});
    EXPECT_EQ(w.parts().size(), 1U);
    EXPECT_EQ(w.rows(), 9);
}

TEST(BlockMatrix, MayHaveNoRows) {
    BlockRowsOf a(StoredType::kQ8_0, 9, 64, 1);
    const WeightMatrix none = matrix(a, DType::kF32).slice_rows(9, 0);
    EXPECT_EQ(none.rows(), 0);
    Machine m(Phase::kDecode, 1, kLimits);
    Operand x = Operand(DType::kF32, 2, 64).randomize(4), out(DType::kF32, 2, 4);
    m->matmul(out.tensor().slice_cols(0, 0), x.tensor(), none);
    m.stream->synchronize();
    EXPECT_TRUE(out.intact());
}

TEST(BlockMatrix, RefusesWhatItCannotHold) {
    BlockRowsOf a(StoredType::kQ4_0, 4, 64, 1);
    EXPECT_TRUE(refused([] { WeightMatrix(64, 0, DType::kI32); }, "i32"));
    WeightMatrix w(64, 0, DType::kF32);
    for (int i = 0; i < 3; ++i) w.add(a.part());
    EXPECT_TRUE(refused([&] { w.add(a.part()); }, "part 3"));
    EXPECT_TRUE(refused([&] { w.slice_rows(5, 8); }, "[5, 13)"));
    WeightMatrix skipped(56, 8, DType::kF32);
    EXPECT_TRUE(refused([&] { skipped.add({StoredType::kF16, a.bytes.data(), 4, 128}); }, "F16"));
    WeightMatrix plain;
    EXPECT_TRUE(refused([&] { plain.add(a.part()); }, "Q4_0"));
}

}  // namespace
}  // namespace trireme::test
