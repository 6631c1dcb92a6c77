// sample() with `ends`: several tokens of a row, each sampled from what earlier ones leave, on every backend.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "runtime/random.h"
#include "tests/kernels/sample_harness.h"

namespace trireme::test {
namespace {

/// At this temperature a logit of -n has 2^-n of the weight of a logit of 0, without rounding.
constexpr double kPowersOfTwo = M_LOG2E;

TEST(Siblings, WeightsOfEarlierOnesAreLeftOut) {
    const Logits logits = {-1, 0, -2, -2};  // weights 2, 4, 1, 1 of 8; by weight: ids 1, 0, 2, 3
    const SamplingParams p = off(kPowersOfTwo);
    for (const int64_t parts : {1, 2, 3}) {
        EXPECT_EQ(siblings(logits, p, {0, 0, 0, 0}, parts), (Ids{1, 0, 2, 3}));
        EXPECT_EQ(siblings(logits, p, Uniforms(4, kLargestUniform), parts), (Ids{3, 2, 0, 1}));
        // The first 4 of 8 parts select token 1. Then the first 2 of 4 parts select token 0; then the first of 2
        // selects 2.
        EXPECT_EQ(siblings(logits, p, {0.5 - 0x1p-53, 0.5 - 0x1p-53, 0.5 - 0x1p-53}, parts), (Ids{1, 0, 2}));
        EXPECT_EQ(siblings(logits, p, {0.5, 0.5, 0.5, 0.5}, parts), (Ids{0, 1, 3, 2}));
        EXPECT_EQ(siblings(logits, p, {0.5, 0.75, 0}, parts), (Ids{0, 2, 1}));
        EXPECT_EQ(siblings(logits, p, {0.75, 0, 0, 0}, parts), (Ids{2, 1, 0, 3}));
    }
}

// Uniforms on a lattice whose steps divide every sum that can be left: each pair occurs exactly as often as its
// probability says, w[x] / 8 * w[y] / (8 - w[x]).
TEST(Siblings, HaveTheDistributionWithoutEarlierOnesExactly) {
    const Logits logits = {-2, 0, -2, -1};
    const std::vector<int> w = {1, 4, 1, 2};
    constexpr int kFirst = 8, kSecond = 84;  // 84: a multiple of 4, 6 and 7
    std::vector<Uniforms> rows;
    std::map<Ids, int> seen;
    const auto count = [&] {
        for (const Ids& pair : drawn({logits}, off(kPowersOfTwo), rows).siblings) ++seen[pair];
        rows.clear();
    };
    for (int i = 0; i < kFirst; ++i) {
        for (int j = 0; j < kSecond; ++j) {
            rows.push_back({(i + 0.5) / kFirst, (j + 0.5) / kSecond});
            if (2 * rows.size() == kMaxRows) count();
        }
    }
    if (!rows.empty()) count();
    EXPECT_EQ(seen.size(), 12u);
    for (int32_t x = 0; x < 4; ++x) {
        for (int32_t y = 0; y < 4; ++y) {
            if (x == y) continue;
            const int wx = w[static_cast<size_t>(x)], wy = w[static_cast<size_t>(y)];
            EXPECT_EQ((seen[{x, y}]), wx * kSecond * wy / (8 - wx)) << x << " " << y;
        }
    }
}

TEST(Siblings, AreAtMostTheSupport) {
    const SamplingParams top2 = {.temperature = 1, .top_k = 2, .top_p = 1, .min_p = 0};
    EXPECT_EQ(siblings({1, 2, 3, 4}, top2, {0.99, 0.99, 0, 0.5}), (Ids{2, 3, -1, -1}));
    EXPECT_EQ(siblings({-kInf, 0, -kInf, 0}, off(), {0, 0, 0}), (Ids{1, 3, -1}));
    // Token 1 has less than one part in 2^40 of the weight.
    EXPECT_EQ(siblings({0, -50, -1}, off(), {0, 0, kLargestUniform}), (Ids{0, 2, -1}));
    SamplingParams min_p = off();
    min_p.min_p = 0.5;
    EXPECT_EQ(siblings({-5, 0, -5, -0.1f}, min_p, {0, 0, 0}), (Ids{1, 3, -1}));
}

TEST(Siblings, GreedyOnesAreTheLargestInOrder) {
    const SamplingParams greedy = {.temperature = 0};
    for (const int64_t parts : {1, 2, 3}) {
        EXPECT_EQ(siblings({1, 3, 3, 2, -4}, greedy, {0.9}, parts), (Ids{1}));
        EXPECT_EQ(siblings({1, 3, 3, 2, -4}, greedy, {0.9, 0.9, 0.9, 0.9}, parts), (Ids{1, 2, 3, 0}));
        EXPECT_EQ(siblings({-kInf, 3, 3, -kInf}, greedy, Uniforms(4, 0), parts), (Ids{1, 2, -1, -1}));
    }
    const float most = std::numeric_limits<float>::max();
    EXPECT_EQ(siblings({-most, most, 0}, greedy, Uniforms(3, 0)), (Ids{1, 2, 0}));
    EXPECT_EQ(siblings({7}, greedy, Uniforms(2, 0)), (Ids{0, -1}));
}

// A sibling is verified against the row's own distribution (kernels/place.h), whichever tokens were sampled.
TEST(Siblings, LeaveTheRowsDistributionUnchanged) {
    Normal normal(3);
    std::vector<Logits> logits(3);
    for (Logits& row : logits) {
        for (int i = 0; i < 500; ++i) row.push_back(static_cast<float>(3 * normal()));
    }
    for (const SamplingParams& p : {SamplingParams{}, off(), SamplingParams{.temperature = 0}}) {
        const Drawn none = drawn(logits, p, {{}, {}, {0.5}}), some = drawn(logits, p, {{0.1, 0.2, 0.3}, {0.9}, {}});
        for (size_t r = 0; r < 3; ++r) {
            EXPECT_EQ(none.distributions[r].sum, some.distributions[r].sum);
            EXPECT_EQ(none.distributions[r].floor, some.distributions[r].floor);
            EXPECT_EQ(none.distributions[r].least, some.distributions[r].least);
            EXPECT_EQ(none.distributions[r].top, some.distributions[r].top);
            EXPECT_EQ(none.distributions[r].scale, some.distributions[r].scale);
        }
    }
}

/// The expected token, computed in f64, if these tokens were sampled before it; -1 if u is so close to an edge that
/// rounding decides. top_k is the only filter.
int32_t expected(const Logits& logits, const SamplingParams& p, const Ids& elders, double u) {
    check(p.greedy() || (p.top_p == 1 && p.min_p == 0), "expected: top_p {} and min_p {}", p.top_p, p.min_p);
    Ids order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto logit = [&](int32_t id) { return static_cast<double>(logits[static_cast<size_t>(id)]); };
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
    if (p.top_k > 0 && static_cast<size_t>(p.top_k) < order.size()) order.resize(static_cast<size_t>(p.top_k));
    std::vector<double> w;
    for (const int32_t id : order) {
        const bool elder = std::find(elders.begin(), elders.end(), id) != elders.end();
        if (p.greedy() && !elder) return id;
        w.push_back(elder ? 0 : std::exp((logit(id) - logit(order[0])) / p.temperature));
    }
    const double all = std::accumulate(w.begin(), w.end(), 0.0);
    double sum = 0;
    for (size_t i = 0; i < w.size(); ++i) {
        sum += w[i] / all;
        if (std::fabs(u - sum) < kClose) return -1;
        if (u < sum) return order[i];
    }
    return -1;
}

TEST(Siblings, AreTheDistributionsOnVocabulariesOfEverySizeAndAnyDivisionOfThem) {
    int compared = 0;
    for (const int64_t vocab : {2, 33, 513, 5000, 70000}) {
        if (kSanitized && vocab > 5000) continue;
        Normal normal(static_cast<uint32_t>(vocab));
        std::vector<Logits> logits(2);
        for (Logits& row : logits) {
            for (int64_t i = 0; i < vocab; ++i) row.push_back(static_cast<float>(3 * normal()));
        }
        for (const SamplingParams& p :
             {off(0.7), SamplingParams{.temperature = 1.3, .top_k = 40, .top_p = 1, .min_p = 0},
              SamplingParams{.temperature = 0}}) {
            // None, one and several siblings, in rows of both logits.
            std::vector<Uniforms> u;
            for (const size_t n : {3, 0, 1, 6, 0, 2, 9}) {
                Uniforms& row = u.emplace_back();
                for (uint32_t i = 0; i < n; ++i) {
                    row.push_back(uniform(11, {.round = static_cast<uint32_t>(u.size()), .node = i}));
                }
            }
            for (const int64_t parts : {1, 3}) {
                const Drawn d = drawn(logits, p, u, parts);
                for (size_t r = 0; r < u.size(); ++r) {
                    Ids elders;
                    for (size_t i = 0; i < u[r].size(); ++i) {
                        const int32_t id = d.siblings[r][i];
                        if (static_cast<int64_t>(i) >= vocab) {
                            EXPECT_EQ(id, -1);
                            continue;
                        }
                        EXPECT_GE(id, 0);
                        EXPECT_EQ(std::count(elders.begin(), elders.end(), id), 0);
                        const int32_t want = expected(logits[r % 2], p, elders, u[r][i]);
                        compared += want >= 0;
                        EXPECT_TRUE(want < 0 || id == want) << vocab << " ids in " << parts << " parts, row " << r
                                                            << ", sibling " << i << ": " << id << ", want " << want;
                        elders.push_back(id);
                    }
                }
            }
        }
    }
    EXPECT_GT(compared, 300);
}

TEST(Siblings, MayBeAsManyAsARoundHas) {
    Normal normal(9);
    Logits logits;
    for (int i = 0; i < 3000; ++i) logits.push_back(static_cast<float>(normal()));
    for (const double t : {0.0, 1.0}) {
        Ids ids = siblings(logits, off(t), Uniforms(kMaxRows, 0));  // selects the first token that is left
        ASSERT_EQ(ids.size(), static_cast<size_t>(kMaxRows));
        for (size_t i = 1; i < ids.size(); ++i) {
            EXPECT_GT(logits[static_cast<size_t>(ids[i - 1])], logits[static_cast<size_t>(ids[i])]) << i;
        }
    }
}

TEST(Siblings, RefuseWrongOperands) {
    Machine m;
    Operand logits = Operand(DType::kF32, 2, 8).randomize(1), uniforms(DType::kI64, 3, 1),
            ids = Operand::ids({0, 0, 0}), ends = Operand::ids({1, 3});
    const Tensor in(logits.tensor().data(), DType::kF32, Shape{1, 2, 8});
    const Tensor two = uniforms.vector().first_rows(2);
    EXPECT_THROW(m->sample(ids.vector(), in, 8, two, {}, {}, ends.vector()), Error);
    EXPECT_THROW(m->sample(ids.vector(), in, 8, uniforms.vector(), {}, {}, ids.vector()), Error);
    Operand many(DType::kI64, kMaxRows + 1, 1), many_ids = Operand::ids(Ids(kMaxRows + 1, 0));
    EXPECT_THROW(m->sample(many_ids.vector(), in, 8, many.vector(), {}, {}, ends.vector()), Error);
}

}  // namespace
}  // namespace trireme::test
