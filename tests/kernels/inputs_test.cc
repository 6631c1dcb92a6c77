// Rows as products read them (ForwardKernels::input_of): whatever rounds them, the bits are those of a product that
// rounds f32 rows itself.

#include <cstring>

#include "tests/kernels/block_rows.h"
#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

constexpr KernelLimits kLimits = {
    .max_rows = kPrefillRows, .max_k = 1024, .max_n = 2048, .heads = 8, .head_dim = 128, .vocab = 0, .blocks = true};
constexpr int64_t kRows[] = {1, 8, 9, 17, 64};

/// Success if both matrices have the same bits.
testing::AssertionResult same(Operand& a, Operand& b) {
    for (int64_t r = 0; r < a.rows(); ++r) {
        if (!same_bits(a.row(r), b.row(r))) return testing::AssertionFailure() << "row " << r;
    }
    if (a.intact() && b.intact()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "wrote outside its elements";
}
DType input_on_gpu(DType weights) {
    return backend_name() == "cpu" ? DType::kF32 : weights;
}
bool multiplies_f16() {
    return multiplies(backend_name(), ActivationType::kF16);
}

TEST(Inputs, NormedRowsGiveTheSameProduct) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            for (const int64_t rows : kRows) {
                Machine m;
                Operand x = Operand(DType::kF32, rows, 96, 4).randomize(1), w = Operand(type, 33, 96).randomize(2),
                        norm = Operand(DType::kF32, 1, 96).randomize(3), buffer(DType::kF32, rows, 96, 8),
                        plain(DType::kF32, rows, 96, 4), got(DType::kF32, rows, 33), want(DType::kF32, rows, 33);
                const Tensor in = m->input_of(buffer.tensor(), w.tensor());
                ASSERT_EQ(in.dtype(), input_on_gpu(type));

                m->rmsnorm(in, x.tensor(), norm.vector(), 1e-5F);
                m->matmul(got.tensor(), in, w.tensor());
                m->rmsnorm(plain.tensor(), x.tensor(), norm.vector(), 1e-5F);
                m->matmul(want.tensor(), plain.tensor(), w.tensor());
                m.stream->synchronize();

                EXPECT_TRUE(same(got, want)) << name_of(type) << ", rows: " << rows;
                EXPECT_TRUE(buffer.intact());
            }
        }
    });
}

// The output lies where the addend was, as in a forward.
TEST(Inputs, AddingAndNormingAreOneAddAndOneNorm) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            for (const int64_t n : {32, 96, 1024}) {
                Machine m(Phase::kDecode, 2, kLimits);
                Operand x = Operand(DType::kF32, 17, n, 4).randomize(1),
                        x_want = Operand(DType::kF32, 17, n).randomize(1),
                        y = Operand(DType::kF32, 17, n, 8).randomize(5),
                        added = Operand(DType::kF32, 17, n).randomize(5), w = Operand(type, 40, n).randomize(2),
                        norm = Operand(DType::kF32, 1, n).randomize(3), got(DType::kF32, 17, 40),
                        want(DType::kF32, 17, 40), normed(DType::kF32, 17, n);
                const Tensor in = m->input_of(y.tensor(), w.tensor());

                m->add_rmsnorm(in, x.tensor(), y.tensor(), norm.vector(), 1e-5F);
                m->matmul(got.tensor(), in, w.tensor());
                m->add(x_want.tensor(), added.tensor());
                m->rmsnorm(normed.tensor(), x_want.tensor(), norm.vector(), 1e-5F);
                m->matmul(want.tensor(), normed.tensor(), w.tensor());
                m.stream->synchronize();

                EXPECT_TRUE(same(x, x_want)) << name_of(type) << " " << n;
                EXPECT_TRUE(same(got, want)) << name_of(type) << " " << n;
            }
        }
    });
}

/// Compares matmul_swiglu into rows that `down` reads with a product and swiglu, both multiplied by `down`.
void expect_gated(const WeightMatrix& w, Operand& down, int64_t rows, const std::string& what) {
    Machine m(Phase::kDecode, 2, kLimits);
    const int64_t n = w.rows() / 2;
    Operand x = Operand(DType::kF32, rows, w.cols(), 4).randomize(1), buffer(DType::kF32, rows, w.cols(), 4),
            norm(DType::kF32, 1, w.cols()), act(DType::kF32, rows, n, 4), scratch(DType::kF32, rows, 2 * n, 3),
            gate_up(DType::kF32, rows, 2 * n), plain(DType::kF32, rows, n), normed(DType::kF32, rows, w.cols()),
            got(DType::kF32, rows, down.rows()), want(DType::kF32, rows, down.rows());
    for (int64_t i = 0; i < w.cols(); ++i) norm.set(0, i, 1);
    const Tensor in = m->input_of(buffer.tensor(), w), out = m->input_of(act.tensor(), down.tensor());

    m->rmsnorm(in, x.tensor(), norm.vector(), 1e-5F);
    m->matmul_swiglu(out, scratch.tensor(), in, w);
    m->matmul(got.tensor(), out, down.tensor());
    m->rmsnorm(normed.tensor(), x.tensor(), norm.vector(), 1e-5F);
    m->matmul(gate_up.tensor(), normed.tensor(), w);
    m->swiglu(plain.tensor(), gate_up.tensor());
    m->matmul(want.tensor(), plain.tensor(), down.tensor());
    m.stream->synchronize();

    EXPECT_TRUE(same(got, want)) << what << ", rows: " << rows;
    EXPECT_TRUE(act.intact() && scratch.intact() && buffer.intact()) << what;
}

// Halves that tiles of 8 columns divide or not; inputs and outputs of other types, and of an odd number of columns.
TEST(Inputs, AGatedProductIsAProductAndSwiglu) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            for (const DType next : kFloatTypes) {
                for (const auto& [n, k] : {std::pair<int64_t, int64_t>{32, 64}, {4, 32}, {75, 96}, {608, 50}}) {
                    Operand w = Operand(type, 2 * n, k).randomize(2), down = Operand(next, 9, n).randomize(3);
                    for (const int64_t rows : kRows) {
                        if (rows > 9 && n > 75) continue;
                        expect_gated(w.tensor(), down, rows,
                                     fmt::format("{}, then {}, {} by {}", name_of(type), name_of(next), n, k));
                    }
                }
            }
        }
    });
}

TEST(Inputs, AGatedProductOfBlocksIsAProductAndSwiglu) {
    if (!multiplies_f16()) GTEST_SKIP() << "this backend does not multiply blocks as f16";
    Operand down = Operand(DType::kF16, 9, 40).randomize(3);
    for (const StoredType type : {StoredType::kQ4_0, StoredType::kQ8_0, StoredType::kQ4_K, StoredType::kQ6_K}) {
        BlockRowsOf all(type, 80, 512, 7), gate(type, 40, 512, 8), up(StoredType::kQ5_0, 40, 512, 9);
        // 480 columns are whole blocks of 32, but not of 256.
        WeightMatrix one(512, 0, ActivationType::kF16), two(512, 0, ActivationType::kF16),
            cut(480, 0, ActivationType::kF16);
        one.add(all.part());
        two.add(gate.part());
        two.add(up.part());
        cut.add(all.part());  // another rank has the last columns
        for (const WeightMatrix& w : {one, two, cut}) {
            for (const int64_t rows : {1, 9}) {
                expect_gated(w, down, rows,
                             fmt::format("{} in {} parts of {}", name_of(type), w.parts().size(), w.cols()));
            }
        }
    }
}

TEST(Inputs, AttentionRoundsItsOutput) {
    for (const DType kv_type : kKvTypes) {
        for (const DType type : {DType::kF16, DType::kBF16}) {
            Machine m;
            Kv kv({.kv_heads = 2, .head_dim = 64, .k_type = kv_type, .v_type = kv_type}, 1, 2);
            Operand keys = Operand(DType::kF32, 300, kv.width()).randomize(1),
                    values = Operand(DType::kF32, 300, kv.width()).randomize(2);
            Machine prefill(Phase::kPrefill);
            append_all(prefill, kv, 0, keys, values);
            stage_all(m, kv.view(), keys.tensor().first_rows(3), values.tensor().first_rows(3));
            RowSet rows(3);
            for (int r = 0; r < 3; ++r) rows.set(r, 0, 300, {r});
            Operand heads = Operand::ids({0, 0, 1, 1}), q = Operand(DType::kF32, 3, 4 * 64).randomize(3),
                    buffer(DType::kF32, 3, 4 * 64), plain(DType::kF32, 3, 4 * 64), w = Operand(type, 8, 4 * 64);
            const Tensor out = m->input_of(buffer.tensor(), w.tensor());

            m->attention(out, q.tensor(), kv.view(), heads.vector(), rows.view(301));
            m->attention(plain.tensor(), q.tensor(), kv.view(), heads.vector(), rows.view(301));
            m.stream->synchronize();

            const DType got = input_on_gpu(type);
            ASSERT_EQ(out.dtype(), got);
            for (int64_t r = 0; r < 3; ++r) {
                for (int64_t i = 0; i < 4 * 64; ++i) {
                    const char* at =
                        static_cast<const char*>(out.data()) + static_cast<size_t>(r * out.stride() + i) * size_of(got);
                    ASSERT_EQ(row_element(got, at, 1, 0), reference::rounded(plain.get(r, i), got)) << r << " " << i;
                }
            }
        }
    }
}

TEST(Inputs, RemainF32WhereProductsDoNotReadThemRounded) {
    Machine m(Phase::kDecode, 2, kLimits), prefill(Phase::kPrefill, 2, kLimits);
    Operand f16s(DType::kF16, 8, 64), f32s(DType::kF32, 8, 64), odd(DType::kF16, 8, 50);
    Operand x(DType::kF32, 3, 64), uneven(DType::kF32, 3, 64, 1), narrow(DType::kF32, 3, 50, 2);
    const auto is_x = [](const Tensor& in, Operand& buffer) {
        return in.dtype() == DType::kF32 && in.data() == buffer.tensor().data() &&
               in.stride() == buffer.tensor().stride();
    };

    EXPECT_EQ(m->input_of(x.tensor(), f16s.tensor()).dtype(), input_on_gpu(DType::kF16));
    EXPECT_TRUE(is_x(m->input_of(x.tensor(), f32s.tensor()), x));
    EXPECT_TRUE(is_x(m->input_of(uneven.tensor(), f16s.tensor()), uneven)) << "rows that begin at any address";
    EXPECT_TRUE(is_x(m->input_of(narrow.tensor(), odd.tensor()), narrow)) << "half a piece of k";
    EXPECT_TRUE(is_x(prefill->input_of(x.tensor(), f16s.tensor()), x));
    EXPECT_THROW(m->input_of(x.tensor(), odd.tensor()), Error);

    if (!multiplies_f16()) return;
    BlockRowsOf blocks(StoredType::kQ4_0, 8, 128, 1);
    const auto input = [&](int64_t cols, int64_t skip, ActivationType as, bool plain) {
        WeightMatrix w(cols, skip, as);
        w.add(blocks.part());
        if (plain) w.add({StoredType::kBF16, f16s.tensor().data(), 8, 2 * cols});
        Operand rows(DType::kF32, 2, cols);
        return m->input_of(rows.tensor(), w).dtype();
    };
    EXPECT_EQ(input(128, 0, ActivationType::kF16, false), DType::kF16);
    EXPECT_EQ(input(96, 0, ActivationType::kF16, false), DType::kF16) << "whole blocks of 32";
    EXPECT_EQ(input(96, 32, ActivationType::kF16, false), DType::kF32) << "other columns before";
    BlockRowsOf large(StoredType::kQ4_K, 8, 256, 1);
    WeightMatrix part(224, 0, ActivationType::kF16);
    part.add(large.part());
    Operand wide(DType::kF32, 2, 224);
    EXPECT_TRUE(is_x(m->input_of(wide.tensor(), part), wide)) << "other columns after, in the last block of 256";
    EXPECT_EQ(input(128, 0, ActivationType::kF32, false), DType::kF32);
    EXPECT_EQ(input(128, 0, ActivationType::kF16, true), DType::kF32) << "a part of bf16";
}

TEST(Inputs, RefusesRowsOfAnotherType) {
    Machine m;
    Operand f32s(DType::kF32, 2, 32), other(DType::kBF16, 2, 32), norm(DType::kF32, 1, 32), w(DType::kF16, 8, 32),
        out(DType::kF32, 2, 8);

    EXPECT_TRUE(refused([&] { m->matmul(out.tensor(), other.tensor(), w.tensor()); }, "matmul: x is bf16"));
    EXPECT_TRUE(refused([&] { m->add_rmsnorm(f32s.tensor(), f32s.tensor(), other.tensor(), norm.vector(), 1e-5F); },
                        "add_rmsnorm: y is bf16"));
    EXPECT_TRUE(refused([&] { m->add_rmsnorm(f32s.tensor(), f32s.tensor(), norm.tensor(), norm.vector(), 1e-5F); },
                        "add_rmsnorm: y is f32 [1, 32]"));
    Operand y(DType::kF32, 2, 32);
    EXPECT_TRUE(refused([&] { m->add_rmsnorm(f32s.tensor(), f32s.tensor(), y.tensor(), norm.vector(), 1e-5F); },
                        "add_rmsnorm: x overlaps"));
    EXPECT_TRUE(refused([&] { m->matmul_swiglu(out.tensor(), f32s.tensor(), f32s.tensor(), w.tensor()); },
                        "matmul_swiglu: gate_up is f32 [2, 32], expected f32 [2, 16]"));
    Operand half(DType::kF32, 2, 4);
    EXPECT_TRUE(refused([&] { m->matmul_swiglu(half.tensor(), out.tensor(), other.tensor(), w.tensor()); },
                        "matmul_swiglu: x is bf16"));
    Operand gate_up(DType::kF32, 2, 8), x(DType::kF32, 2, 32);
    EXPECT_TRUE(
        refused([&] { m->matmul_swiglu(x.tensor().slice_cols(0, 4), gate_up.tensor(), x.tensor(), w.tensor()); },
                "matmul_swiglu: out overlaps"));
    if (backend_name() != "cpu") {
        Operand heads(DType::kF32, 1, 16), odd(DType::kF16, 2, 50), of_odd(DType::kF16, 8, 50);
        EXPECT_TRUE(refused([&] { m->rmsnorm(m->input_of(x.tensor(), w.tensor()), x.tensor(), heads.vector(), 1e-5F); },
                            "rmsnorm: groups over their input"));
        EXPECT_TRUE(refused([&] { m->matmul(out.tensor(), odd.tensor(), of_odd.tensor()); },
                            "matmul: rounded rows of 50 elements"));
        return;
    }
    EXPECT_TRUE(refused([&] { m->rmsnorm(other.tensor(), f32s.tensor(), norm.vector(), 1e-5F); }, "out is bf16"));
}

}  // namespace
}  // namespace trireme::test
