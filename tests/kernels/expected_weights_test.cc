/// Expected Attention's weights (Kernels::expected_weights) against f64, on every target.

#include <cmath>
#include <vector>

#include "tests/kernels/slots_harness.h"

namespace trireme::test {
namespace {

struct Case {
    KvLayout layout;
    std::vector<int32_t> kv_of_head;
    int64_t entries, rows;
};
const Case kCases[] = {{{3, 64, DType::kF16, DType::kF16}, {0, 0, 0, 1, 1, 1, 2, 2, 2}, 700, 64},
                       {{2, 64, DType::kBF16, DType::kF32}, {0, 0, 1, 1, 1}, 300, 130},
                       {{4, 40, DType::kF32, DType::kF32}, {0, 1, 2, 3}, 256, 7},
                       {{1, 8, DType::kF32, DType::kF16}, {0, 0, 0}, 17, 1},
                       {{1, 128, DType::kF16, DType::kBF16}, {0, 0}, 1, 33}};

constexpr KernelLimits kLimits = {.max_rows = 1, .max_k = 1, .max_n = 1, .heads = 9, .head_dim = 128};

/// Entries, queries, and the first entry of each head.
struct Scene {
    explicit Scene(const Case& from, uint32_t seed = 3)
        : c(from),
          at(c.layout, c.entries, seed),
          q(DType::kF32, c.rows, static_cast<int64_t>(c.kv_of_head.size()) * c.layout.head_dim),
          heads(Operand::ids(c.kv_of_head)),
          begins(DType::kI32, c.layout.kv_heads, 1),
          angles(DType::kF32, c.entries, c.layout.head_dim),
          weights(DType::kF32, heads.rows(), c.entries),
          norms(DType::kF32, c.layout.kv_heads, c.entries) {
        at.append(0);
        q.randomize(seed + 5, 2);
        for (int64_t h = 0; h < c.layout.kv_heads; ++h) {
            begins.at<int32_t>(h, 0) = static_cast<int32_t>(c.entries * h / (c.layout.kv_heads + 1));
        }
        const int64_t pairs = c.layout.head_dim / 2;
        for (int64_t p = 0; p < c.entries; ++p) {
            for (int64_t i = 0; i < pairs; ++i) {
                const double angle = static_cast<double>(p) / std::pow(100.0, static_cast<double>(i) / 8);
                angles.set(p, i, static_cast<float>(std::cos(angle)));
                angles.set(p, pairs + i, static_cast<float>(std::sin(angle)));
            }
        }
    }
    LayerKv view(bool rolling, bool begun) {
        LayerKv kv = at.kv.view();
        if (rolling) kv.angles = angles.tensor();
        if (begun) kv.begins = begins.vector();
        return kv;
    }
    void run(Machine& m, bool rolling, bool begun) {
        m->expected_weights(weights.tensor(), norms.tensor(), q.tensor(), view(rolling, begun), heads.vector());
        m.stream->synchronize();
        ASSERT_TRUE(weights.intact() && norms.intact());
    }
    /// Compares the weights of head h with f64.
    void check(int64_t h, bool rolling, bool begun) {
        const KvLayout& l = c.layout;
        const Rows keys = stored(at.k, l.k_type), values = stored(at.v, l.v_type);
        const int64_t head = c.kv_of_head[static_cast<size_t>(h)], begin = begun ? begins.at<int32_t>(head, 0) : 0;
        const int64_t n = c.entries - begin;
        Rows mine(n, l.head_dim), of(n, l.head_dim), table(n, l.head_dim), queries(c.rows, l.head_dim);
        for (int64_t e = 0; e < n; ++e) {
            for (int64_t i = 0; i < l.head_dim; ++i) {
                mine(e, i) = keys(begin + e, head * l.head_dim + i);
                of(e, i) = values(begin + e, head * l.head_dim + i);
                table(e, i) = angles.get(begin + e, i);
            }
        }
        if (rolling) mine = reference::rope(mine, table, l.head_dim);
        for (int64_t r = 0; r < c.rows; ++r) {
            for (int64_t i = 0; i < l.head_dim; ++i) queries(r, i) = q.get(r, h * l.head_dim + i);
        }
        std::vector<double> exponent(static_cast<size_t>(n));
        double top = -1e300, total = 0, range = 0;
        for (int64_t e = 0; e < n; ++e) {
            std::vector<double> scores(static_cast<size_t>(c.rows));
            double mean = 0, square = 0;
            for (int64_t r = 0; r < c.rows; ++r) {
                double& s = scores[static_cast<size_t>(r)];
                for (int64_t i = 0; i < l.head_dim; ++i) s += queries(r, i) * mine(e, i);
                mean += (s /= std::sqrt(static_cast<double>(l.head_dim))) / static_cast<double>(c.rows);
            }
            for (const double s : scores) {
                square += (s - mean) * (s - mean) / static_cast<double>(c.rows);
                range = std::max(range, std::fabs(s - scores[0]));
            }
            top = std::max(top, exponent[static_cast<size_t>(e)] = mean + square / 2);
        }
        for (double& x : exponent) total += x = std::exp(x - top);
        // A score is off by eps |q| |k|, or by half a step of each factor if they are rounded; an exponent by as much
        // times the range of the scores around the first.
        const DType inputs = attended_in(l.k_type, l.v_type);
        const double norms_of = row_norm(queries) * row_norm(mine), step = inputs == DType::kF32 ? 0 : eps_of(inputs);
        const double of_score = 4 * kEps * norms_of + step * norms_of / std::sqrt(static_cast<double>(l.head_dim));
        const double relative = (1 + 2 * range) * of_score + 1e-5;
        for (int64_t e = 0; e < begin; ++e) EXPECT_EQ(weights.get(h, e), 0) << e;
        for (int64_t e = 0; e < n; ++e) {
            double norm = 0;
            for (int64_t i = 0; i < l.head_dim; ++i) norm += of(e, i) * of(e, i);
            const double want = exponent[static_cast<size_t>(e)] / total * std::sqrt(norm);
            ASSERT_NEAR(weights.get(h, begin + e), want, relative * want + 1e-30) << "head " << h << " entry " << e;
        }
    }

    Case c;
    Entries at;
    Operand q, heads, begins, angles, weights, norms;
};

TEST(ExpectedWeights, AreThoseOfNormallyDistributedQueries) {
    for (const Case& c : kCases) {
        on_every_target([&] {
            Scene s(c);
            for (const auto& [rolling, begun] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
                Machine m(Phase::kPrefill, 2, kLimits);
                s.run(m, rolling, begun);
                for (int64_t h = 0; h < s.heads.rows(); ++h) s.check(h, rolling, begun);
            }
        });
    }
}

TEST(ExpectedWeights, HaveTheSameBitsForAnyThreads) {
    Scene s(kCases[0]);
    std::vector<float> first;
    for (const int threads : thread_counts()) {
        Machine m(Phase::kPrefill, threads, kLimits);
        s.run(m, false, true);
        if (first.empty()) first = s.weights.floats();
        EXPECT_EQ(s.weights.floats(), first) << threads;
    }
}

TEST(ExpectedWeights, RefuseHeadsWithoutEntries) {
    Scene s(kCases[0]);
    s.begins.at<int32_t>(1, 0) = 700;
    EXPECT_TRUE(refused(
        [&] {
            Machine m(Phase::kPrefill, 2, kLimits);
            s.run(m, false, true);
        },
        "700"));
}

}  // namespace
}  // namespace trireme::test
