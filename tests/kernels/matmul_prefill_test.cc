#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

// [rows, n, k]: at least one size of each shape is no multiple of a tile or block.
constexpr int64_t kShapes[][3] = {{1, 1, 1},    {6, 16, 8},      {7, 17, 9},      {5, 3, 321},    {65, 130, 64},
                                  {192, 64, 7}, {193, 129, 640}, {200, 40, 1000}, {512, 97, 576}, {11, 300, 1536}};

TEST(MatmulPrefill, MatchesTheReferenceOnOddShapesAndStrides) {
    for (const DType type : kFloatTypes) {
        for (const auto& [rows, n, k] : kShapes) {
            Operand x = Operand(DType::kF32, rows, k, 3).randomize(1), w = Operand(type, n, k).randomize(2);
            const Rows xs = stored(x, multiplied_in(type)), ws = w.values(), want = reference::matmul(xs, ws);
            const double tol = kEps * std::sqrt(static_cast<double>(k) + 4) * row_norm(xs) * row_norm(ws);
            on_every_target([&, rows = rows, n = n] {
                Machine m(Phase::kPrefill);
                Operand out(DType::kF32, rows, n, 5);

                m->matmul(out.tensor(), x.tensor(), w.tensor());
                m.stream->synchronize();

                ASSERT_TRUE(near(out, want, tol)) << name_of(type) << " rows " << rows << " n " << n;
            });
        }
    }
}

TEST(MatmulPrefill, HasTheSameBitsForAnyNumberOfThreads) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            for (const auto& [rows, n, k] : kShapes) {
                Operand x = Operand(DType::kF32, rows, k).randomize(3), w = Operand(type, n, k).randomize(4);
                Operand want(DType::kF32, rows, n);
                Machine one(Phase::kPrefill, 1);
                one->matmul(want.tensor(), x.tensor(), w.tensor());
                one.stream->synchronize();
                for (const int threads : thread_counts()) {
                    Machine m(Phase::kPrefill, threads);
                    Operand out(DType::kF32, rows, n);

                    m->matmul(out.tensor(), x.tensor(), w.tensor());
                    m.stream->synchronize();

                    const std::vector<float> a = out.floats(), b = want.floats();
                    ASSERT_TRUE(same_bits<float>(a, b)) << name_of(type) << " n " << n << " threads " << threads;
                }
            }
        }
    });
}

}  // namespace
}  // namespace trireme::test
