// sample(): the distribution that kernels/sampling.h specifies, on every backend.

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/random.h"
#include "tests/kernels/sample_harness.h"

namespace trireme::test {
namespace {

/// Logits whose softmax at temperature 1 is exactly these weights, up to rounding.
std::vector<float> logits_of(const std::vector<double>& weights) {
    std::vector<float> logits;
    for (const double w : weights) logits.push_back(w > 0 ? static_cast<float>(std::log(w)) : -kInf);
    return logits;
}

/// Samples from the rows of divided(): one token for each uniform.
std::vector<int32_t> tokens(const std::vector<std::vector<float>>& logits, const SamplingParams& params,
                            const std::vector<double>& u, int64_t parts = 1) {
    const auto vocab = static_cast<int64_t>(logits[0].size()), rows = static_cast<int64_t>(u.size());
    Machine m;
    Operand in = divided(logits, rows, parts), uniforms(DType::kI64, rows, 1),
            ids = Operand::ids(std::vector<int32_t>(u.size(), -7));
    for (int64_t r = 0; r < rows; ++r) uniforms.at<int64_t>(r, 0) = fraction_of(u[static_cast<size_t>(r)]);

    m->sample(ids.vector(), by_part(in, parts), vocab, uniforms.vector(), rule_of(params));
    m.stream->synchronize();

    EXPECT_TRUE(ids.intact());
    std::vector<int32_t> out;
    for (int64_t r = 0; r < rows; ++r) out.push_back(ids.at<int32_t>(r, 0));
    return out;
}
int32_t draw(const std::vector<float>& logits, const SamplingParams& params, double u) {
    return tokens({logits}, params, {u})[0];
}

/// Checks that exactly these ids can be sampled, in this order, with these probabilities.
void expect_distribution(const std::vector<float>& logits, const SamplingParams& params,
                         const std::vector<int32_t>& ids, const std::vector<double>& p) {
    double begin = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
        const double end = i + 1 < ids.size() ? begin + p[i] : 1;
        EXPECT_EQ(tokens({logits}, params, {begin == 0 ? 0 : begin + kClose, (begin + end) / 2, end - kClose}),
                  std::vector<int32_t>(3, ids[i]))
            << "token " << i << " of the order";
        begin = end;
    }
    EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-9);
}

TEST(Sample, GreedyTakesTheLowestIdOnTies) {
    EXPECT_EQ(draw({1, 3, 3, 2, 3}, {.temperature = 0}, 0.99), 1);
    EXPECT_EQ(draw({-0.0f, 0.0f}, {.temperature = 0}, 0.5), 0);
}

TEST(Sample, OrdersByProbabilityThenId) {
    expect_distribution(logits_of({0.2, 0.4, 0.2, 0.2}), off(), {1, 0, 2, 3}, {0.4, 0.2, 0.2, 0.2});
}

TEST(Sample, TemperatureComesFirst) {
    SamplingParams p = off(0.5);  // squares the weights: 1, 4, 9, 16 of 30
    expect_distribution(logits_of({0.1, 0.2, 0.3, 0.4}), p, {3, 2, 1, 0}, {16 / 30.0, 9 / 30.0, 4 / 30.0, 1 / 30.0});
    p.top_p = 0.8;  // 16/30 < 0.8 <= 25/30: two are kept; unsquared it would be three
    expect_distribution(logits_of({0.1, 0.2, 0.3, 0.4}), p, {3, 2}, {16 / 25.0, 9 / 25.0});
}

TEST(Sample, TopKThenTopPThenMinP) {
    SamplingParams p = off();
    p.top_k = 3;     // 0.4 0.3 0.2 -> of 0.9
    p.top_p = 0.75;  // 0.444 + 0.333 = 0.778: two kept. Without top-k 0.4 + 0.3 = 0.7 < 0.75 would keep three
    expect_distribution(logits_of({0.1, 0.2, 0.3, 0.4}), p, {3, 2}, {4 / 7.0, 3 / 7.0});
    p = off();
    p.min_p = 0.6;  // keeps p >= 0.24
    expect_distribution(logits_of({0.1, 0.2, 0.3, 0.4}), p, {3, 2}, {4 / 7.0, 3 / 7.0});
    p.top_p = 0.65;  // 0.4 + 0.3 reach it; then min-p keeps both
    expect_distribution(logits_of({0.1, 0.2, 0.3, 0.4}), p, {3, 2}, {4 / 7.0, 3 / 7.0});
}

TEST(Sample, TopKKeepsTheLowerIdsOfATie) {
    SamplingParams p = off();
    p.top_k = 2;
    expect_distribution({0, 1, 1, 1}, p, {1, 2}, {0.5, 0.5});
    p.top_k = 9;  // more tokens than there are
    expect_distribution({1, 1}, p, {0, 1}, {0.5, 0.5});
}

// Equal logits: the i-th part of [0, 1) selects token i, whatever the bytes of its id.
TEST(Sample, TiesGoByIdInVocabulariesOfEverySize) {
    const std::vector<float> all(65537, 0.25f);
    for (const int32_t vocab : {1, 2, 256, 257, 4000, 65536, 65537}) {
        for (const auto& [top_k, min_p] : {std::pair(0, 0.0), {0, 0.5}, {300, 0.0}, {2049, 0.0}}) {
            SamplingParams p = off();
            p.top_k = top_k;
            p.min_p = min_p;
            const int32_t n = top_k > 0 ? std::min(top_k, vocab) : vocab;
            std::vector<int32_t> want;
            std::vector<double> u;
            for (const int32_t id : {0, 1, 255, 256, n / 2, n - 1}) {
                if (id >= n) continue;
                want.push_back(id);
                u.push_back((id + 0.5) / n);
            }
            EXPECT_EQ(tokens({{all.begin(), all.begin() + vocab}}, p, u), want)
                << vocab << " ids, top-k " << top_k << ", min-p " << min_p;
        }
    }
}

// Masked vocabularies: top-k may select more tokens than have finite logits.
TEST(Sample, TopKMayKeepAsManyAsAreFiniteAndMore) {
    std::vector<float> logits(5000, -kInf);
    logits[4] = logits[700] = logits[4999] = 1;
    for (const int64_t top_k : {2, 3, 4, 5}) {
        SamplingParams p = off();
        p.top_k = top_k;
        EXPECT_EQ(tokens({logits}, p, {0, 0.4, kLargestUniform}),
                  (std::vector<int32_t>{4, top_k == 2 ? 4 : 700, top_k == 2 ? 700 : 4999}))
            << top_k;
    }
}

TEST(Sample, FiltersKeepAtLeastOneToken) {
    for (const double top_p : {1e-9, 1e-30}) {
        expect_distribution(logits_of({0.2, 0.8}), {.temperature = 1, .top_k = 1, .top_p = top_p, .min_p = 1}, {1},
                            {1.0});
        expect_distribution(logits_of({0.2, 0.8}), {.temperature = 1, .top_k = 0, .top_p = top_p, .min_p = 0}, {1},
                            {1.0});
    }
}

TEST(Sample, AScaleOfOneIsNotGreedy) {
    EXPECT_EQ(draw({0, 0}, off(M_LOG2E), kLargestUniform), 1);
}

TEST(Sample, OneTokenMayBeAllThatTopKKeeps) {
    EXPECT_EQ(draw({0, 1, 0.5f}, {.temperature = 1, .top_k = 1, .top_p = 1, .min_p = 0}, kLargestUniform), 1);
}

TEST(Sample, TopPKeepsWhatReachesItAndNoMore) {
    const auto last = [](double top_p) {  // two tokens with weight 2^40 each
        return draw({0, 0}, {.temperature = 1, .top_k = 0, .top_p = top_p, .min_p = 0}, kLargestUniform);
    };
    EXPECT_EQ(last(0.5), 0);
    EXPECT_EQ(last(0.5 + 0x1p-41), 1);
}

TEST(Sample, WhatMinPDropsWeighsNothing) {
    SamplingParams p = off();
    p.min_p = 0.5;
    EXPECT_EQ(draw({-5, 0, -5, -5}, p, kLargestUniform), 1);
}

// The vocabulary is larger than the GPU's list of candidates, so that min-p decides what enters the list.
TEST(Sample, MinPKeepsATokenOfExactlyThatProbability) {
    SamplingParams p = off(M_LOG2E);  // a logit of -1 has half of the first's weight
    p.min_p = 0.5;
    Logits logits(3000, -20);
    logits[7] = 0, logits[2000] = -1;
    EXPECT_EQ(tokens({logits}, p, {0, 0.66, 0.67, kLargestUniform}), (Ids{7, 7, 2000, 2000}));
}

TEST(Sample, TheLowestFiniteLogitsAreDrawn) {
    const float lowest = std::numeric_limits<float>::lowest();
    for (const double top_p : {0.95, 1.0}) {
        SamplingParams p = off();
        p.top_p = top_p;
        EXPECT_EQ(draw({-kInf, lowest, lowest}, p, 0), 1);
        EXPECT_EQ(draw({-kInf, lowest, lowest}, p, kLargestUniform), 2);
    }
}

TEST(Sample, NeverGivesATokenOfMinusInfinity) {
    for (const double u : {0.0, 0.5, 0.999999999999}) {
        EXPECT_EQ(draw({-kInf, 0, -kInf}, off(), u), 1);
        EXPECT_EQ(draw({-kInf, 0, -kInf}, {.temperature = 1, .top_k = 3, .top_p = 0.9, .min_p = 0}, u), 1);
    }
}

TEST(Sample, RefusesNanAndNoFiniteMaximum) {
    for (const double t : {0.0, 1.0}) {
        for (const std::vector<float>& bad :
             {std::vector<float>{0, std::nanf(""), 1}, {0, -std::nanf(""), 1}, {-kInf, -kInf}, {0, kInf}}) {
            try {
                draw(bad, off(t), 0.5);
                ADD_FAILURE() << bad[1];
            } catch (const Error& e) {
                EXPECT_EQ(e.code(), Exit::kData);
            }
        }
    }
}

TEST(Sample, TheSmallestTemperatureIsGreedy) {
    for (const double t : {1e-300, 1e-310, 5e-324}) {
        for (const double u : {0.0, 0.5, 0.999}) EXPECT_EQ(draw({1, 3, 2.999f, -4}, off(t), u), 1) << t;
    }
}

/// The expected token, computed in f64; -1 if u is so close to an edge, or a filter to its bound, that rounding
/// decides.
int32_t expected(const std::vector<float>& logits, const SamplingParams& p, double u) {
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto logit = [&](int32_t id) { return static_cast<double>(logits[static_cast<size_t>(id)]); };
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
    if (p.top_k > 0 && static_cast<size_t>(p.top_k) < order.size()) order.resize(static_cast<size_t>(p.top_k));
    std::vector<double> w;
    for (const int32_t id : order) w.push_back(std::exp((logit(id) - logit(order[0])) / p.temperature));
    const double all = std::accumulate(w.begin(), w.end(), 0.0);
    double sum = 0;
    size_t kept = w.size();
    for (size_t i = 0; p.top_p < 1 && i < kept; ++i) {
        sum += w[i] / all;
        if (std::fabs(sum - p.top_p) < kClose) return -1;
        if (sum >= p.top_p) kept = i + 1;
    }
    while (kept > 1 && w[kept - 1] < p.min_p) --kept;
    if (kept < w.size() && std::fabs(w[kept] - p.min_p) < kClose) return -1;
    if (p.min_p > 0 && std::fabs(w[kept - 1] - p.min_p) < kClose) return -1;
    const double mass = std::accumulate(w.begin(), w.begin() + static_cast<ptrdiff_t>(kept), 0.0);
    sum = 0;
    for (size_t i = 0; i < kept; ++i) {
        sum += w[i] / mass;
        if (std::fabs(u - sum) < kClose) return -1;
        if (u < sum) return order[i];
    }
    return -1;
}

TEST(Sample, IsTheDistributionOnVocabulariesOfEverySizeAndAnyDivisionOfThem) {
    int compared = 0;
    // A sanitizer checks accesses and not distributions: a few draws from the smaller vocabularies suffice.
    const uint32_t draws = emulated() || kSanitized ? 4 : 20;
    for (const int64_t vocab : {1, 2, 33, 513, 5000, 70000}) {
        if (kSanitized && vocab > 5000) continue;
        Normal normal(static_cast<uint32_t>(vocab));
        std::vector<std::vector<float>> logits(2);
        for (auto& row : logits) {
            for (int64_t i = 0; i < vocab; ++i) row.push_back(static_cast<float>(3 * normal()));
        }
        for (const SamplingParams& p :
             {off(), SamplingParams{}, SamplingParams{.temperature = 1.3, .top_k = 0, .top_p = 0.9, .min_p = 0},
              SamplingParams{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.05},
              SamplingParams{.temperature = 0.7, .top_k = 2100, .top_p = 1, .min_p = 0.01}}) {
            std::vector<double> u;  // four: one row for each order and schedule of emulated warps
            for (uint32_t i = 0; i < draws; ++i) u.push_back(uniform(7, {.round = i}));
            for (const int64_t parts : {1, 3}) {
                const std::vector<int32_t> ids = tokens(logits, p, u, parts);
                for (size_t r = 0; r < u.size(); ++r) {
                    const int32_t want = expected(logits[r % 2], p, u[r]);
                    if (want < 0) continue;
                    ++compared;
                    EXPECT_EQ(ids[r], want)
                        << vocab << " ids in " << parts << " parts, top-k " << p.top_k << ", row " << r;
                }
            }
        }
    }
    EXPECT_GT(compared, draws == 4 ? 50 : 500);
}

// Chi-square of 32,768 draws over 16 cells against the distribution: the 1 - 1e-6 quantile for 15 degrees is 57. An
// emulated row takes a millisecond: there a few draws are compared one by one.
TEST(Sample, DrawsTheDistribution) {
    std::vector<double> weights(16);
    Normal normal(5);
    for (double& w : weights) w = 1 + static_cast<double>(normal.below(100));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const std::vector<float> logits = logits_of(weights);
    const uint32_t rows = 64, rounds = emulated() ? 1 : 512;
    std::vector<int64_t> seen(16);
    for (uint32_t round = 0; round < rounds; ++round) {
        std::vector<double> u;
        for (uint32_t r = 0; r < rows; ++r) u.push_back(uniform(9, {.round = round, .node = r}));
        const std::vector<int32_t> ids = tokens({logits}, off(), u);
        for (uint32_t r = 0; r < rows; ++r) {
            ++seen[static_cast<size_t>(ids[r])];
            const int32_t want = expected(logits, off(), u[r]);
            EXPECT_TRUE(want < 0 || ids[r] == want) << ids[r] << ", want " << want;
        }
    }
    if (emulated()) return;
    double chi2 = 0;
    for (size_t i = 0; i < 16; ++i) {
        const double want = rows * rounds * weights[i] / sum;
        chi2 += (static_cast<double>(seen[i]) - want) * (static_cast<double>(seen[i]) - want) / want;
    }
    EXPECT_LT(chi2, 57);
}

// Logits of a forward with padding: the rows after the first two are NaN.
TEST(Sample, DrawsFromTheFirstRowsOfMore) {
    const std::vector<float> a = {0, 3, 1, 2, -1}, b = {5, 3, 1, 2, -1}, none(5, std::nanf(""));
    for (const int64_t parts : {1, 2}) {
        Machine m;
        Operand in = divided({a, b, none, none}, 4, parts), uniforms(DType::kI64, 2, 1), ids = Operand::ids({-7, -7}),
                distributions(DType::kI64, 2, kRowDistributionWords);
        for (int64_t r = 0; r < 2; ++r) uniforms.at<int64_t>(r, 0) = fraction_of(0.5);

        m->sample(ids.vector(), by_part(in, parts), 5, uniforms.vector(), rule_of(off(0)), distributions.tensor());
        m.stream->synchronize();

        EXPECT_TRUE(distributions.intact() && ids.intact());
        EXPECT_EQ(ids.at<int32_t>(0, 0), 1) << parts;
        EXPECT_EQ(ids.at<int32_t>(1, 0), 0) << parts;
    }
}

TEST(Sample, RefusesWrongOperands) {
    Machine m;
    Operand logits = Operand(DType::kF32, 2, 8).randomize(1), uniforms(DType::kI64, 2, 1), ids = Operand::ids({0, 0});
    const Tensor in(logits.tensor().data(), DType::kF32, Shape{1, 2, 8});
    EXPECT_THROW(m->sample(ids.vector(), in, 9, uniforms.vector(), {}), Error);
    EXPECT_THROW(m->sample(ids.vector(), in, 0, uniforms.vector(), {}), Error);
    EXPECT_THROW(m->sample(ids.vector(), logits.tensor(), 8, uniforms.vector(), {}), Error);
    EXPECT_THROW(m->sample(uniforms.vector(), in, 8, uniforms.vector(), {}), Error);
}

}  // namespace
}  // namespace trireme::test
