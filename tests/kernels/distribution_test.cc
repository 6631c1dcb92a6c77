// The distribution of a row in integers, and the tokens sampled from it: exactly as kernels/sampling.h specifies, on
// every backend.

#include <algorithm>
#include <numeric>

#include "tests/kernels/sample_harness.h"

namespace trireme::test {
namespace {

/// A row's distribution, computed by sorting the whole row.
struct SortedDistribution {
    SortedDistribution(const Logits& logits, const SamplingRule& rule) {
        const float top = *std::max_element(logits.begin(), logits.end());
        for (size_t i = 0; i < logits.size(); ++i) {
            if (logits[i] > -kInf) keys.push_back(order_key(logits[i], static_cast<int64_t>(i)));
        }
        std::sort(keys.begin(), keys.end(), std::greater<>());
        if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < keys.size()) {
            keys.resize(static_cast<size_t>(rule.top_k));
        }
        for (const uint64_t key : keys) weights.push_back(weight_of(logit_of_key(key), top, rule.scale));
        if (rule.top_p < SamplingRule::kOne) {
            const uint64_t least = part_of(sum(), rule.top_p, /*up=*/true);
            uint64_t head = 0;
            size_t n = 0;
            do head += weights[n++];
            while (head < least);
            weights.resize(n);
        }
        for (uint64_t& w : weights) w = w < rule.min_weight ? 0 : w;
    }
    uint64_t sum() const { return std::accumulate(weights.begin(), weights.end(), uint64_t{0}); }
    /// Samples a token, and excludes it from later draws.
    int32_t draw(uint64_t u) {
        const uint64_t all = sum(), before = part_of(all, u, /*up=*/false);
        uint64_t running = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
            running += weights[i];
            if (running <= before) continue;
            weights[i] = 0;
            return static_cast<int32_t>(~static_cast<uint32_t>(keys[i]));
        }
        return -1;
    }

    std::vector<uint64_t> keys, weights;
};

/// Logits of many sizes, some of them equal, some -inf.
std::vector<Logits> rows_of(int64_t vocab) {
    Normal normal(static_cast<uint32_t>(vocab));
    std::vector<Logits> rows;
    for (const float deviation : {0.0F, 0.3F, 3.0F, 30.0F}) {
        Logits& row = rows.emplace_back();
        for (int64_t i = 0; i < vocab; ++i) {
            const auto x = static_cast<float>(normal());
            row.push_back(i % 7 == 3 ? -kInf : i % 5 == 0 ? std::round(4 * x) / 4 * deviation : x * deviation);
        }
    }
    return rows;
}

TEST(Distribution, IsThatOfTheSortedRowToTheLastUnit) {
    on_every_target([] {
        for (const int64_t vocab : {1, 15, 16, 17, 515, 4099}) {
            const std::vector<Logits> rows = rows_of(vocab);
            for (const SamplingParams& p :
                 {off(), off(0.1), off(40), off(1e-44), SamplingParams{}, SamplingParams{1.5, 3, 1, 0},
                  SamplingParams{1, 2000, 0.9, 0}, SamplingParams{1, 0, 0.999, 0}, SamplingParams{1, 0, 0, 0},
                  SamplingParams{1, 0, 1, 0.001}, SamplingParams{1, 0, 0.99, 1}}) {
                std::vector<Uniforms> u;
                for (uint32_t r = 0; r < rows.size(); ++r) {
                    Uniforms& of_row = u.emplace_back();
                    for (uint32_t i = 0; i < 12; ++i) of_row.push_back(uniform(5, {.round = r, .node = i}));
                    of_row.push_back(0);
                    of_row.push_back(kLargestUniform);
                }
                for (const int64_t parts : {1, 3}) {
                    const Drawn d = drawn(rows, p, u, parts);
                    for (size_t r = 0; r < rows.size(); ++r) {
                        SortedDistribution distribution(rows[r], rule_of(p));
                        EXPECT_EQ(d.distributions[r].sum, distribution.sum())
                            << vocab << " ids, row " << r << ", T " << p.temperature;
                        for (size_t i = 0; i < u[r].size(); ++i) {
                            EXPECT_EQ(d.siblings[r][i], distribution.draw(static_cast<uint64_t>(fraction_of(u[r][i]))))
                                << vocab << " ids, row " << r << ", T " << p.temperature << ", draw " << i;
                        }
                        // The sum of the weights that the reported distribution gives to the ids.
                        const SortedDistribution whole(rows[r], rule_of(p));
                        uint64_t sum = 0;
                        for (int64_t id = 0; id < vocab; ++id)
                            sum += weight_at(d.distributions[r], {rows[r].data(), vocab, 0}, id);
                        EXPECT_EQ(sum, whole.sum()) << vocab << " ids, row " << r << ", T " << p.temperature;
                    }
                }
            }
        }
    });
}

TEST(Distribution, PowersOfTwoAreWithinTwoUnits) {
    float worst = 0;
    for (int i = 0; i <= 1 << 20; ++i) {
        const float x = -41.0F * static_cast<float>(i) / (1 << 20);
        const double exact = std::exp2(static_cast<double>(x));
        const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, static_cast<float>(std::fabs(static_cast<double>(power_of_two(x)) - exact) / unit));
    }
    EXPECT_LE(worst, 2);
    for (int n = 0; n <= 64; ++n) EXPECT_EQ(power_of_two(static_cast<float>(-n)), std::ldexp(1.0F, -n)) << n;
}

}  // namespace
}  // namespace trireme::test
