#pragma once
/// G-test: do a decoder's continuations have the model's distribution? Expected probabilities are products, in f64, of
/// the model's token probabilities. The models have few tokens, so every continuation can be counted.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include <boost/math/distributions/chi_squared.hpp>
#include <gtest/gtest.h>

#include "decode/generate.h"
#include "dist/self_comm.h"
#include "tests/support/engine.h"
#include "tests/support/random_model.h"

namespace trireme::test {

inline constexpr int64_t kVocab = 5, kTokens = 4;
inline constexpr double kUnlikely = 1e-3;  // below this p of the G-test, distributions differ; seeds are fixed

/// Random models of different widths have different distributions.
inline std::unique_ptr<RandomModel> few_tokens_model(int64_t dim, int64_t context = 64) {
    return std::make_unique<RandomModel>(RandomShape{.name = "tiny",
                                                     .layers = 2,
                                                     .dim = dim,
                                                     .heads = 2,
                                                     .kv_heads = 1,
                                                     .head_dim = 16,
                                                     .ffn = 32,
                                                     .vocab = kVocab,
                                                     .context = context});
}

/// Number of continuations that are counted.
inline int64_t samples() {
    const char* many = std::getenv("TRIREME_TEST_SAMPLES");
    return many == nullptr ? 20'000 : std::atoll(many);
}

/// Distribution of a row of logits after temperature and top-p, in f64; other filters must be off.
inline std::vector<double> distribution_of(const float* logits, const SamplingParams& p) {
    check(p.top_k == 0 && p.min_p == 0, "distribution_of: top_k {} and min_p {} are not supported", p.top_k, p.min_p);
    std::vector<double> w;
    std::vector<size_t> order;
    for (int64_t i = 0; i < kVocab; ++i) {
        w.push_back(std::exp(static_cast<double>(logits[i]) / p.temperature));
        order.push_back(static_cast<size_t>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return w[a] > w[b]; });
    const double all = std::accumulate(w.begin(), w.end(), 0.0);
    double head = 0, kept = 0;
    for (const size_t i : order) {
        if (head >= p.top_p * all) w[i] = 0;
        head += w[i];
        kept += w[i];
    }
    for (double& x : w) x /= kept;
    return w;
}

/// Probability of every continuation of `prompt` that has kTokens tokens.
inline std::map<std::vector<int32_t>, double> distributions_of(Level& level, const std::vector<int32_t>& prompt,
                                                               const SamplingParams& p) {
    std::map<std::vector<int32_t>, double> distributions;
    std::vector<int32_t> text;
    const std::function<void(double)> walk = [&](double probability) {
        if (text.size() == kTokens) {
            distributions[text] = probability;
            return;
        }
        std::vector<int32_t> ids = prompt;
        ids.insert(ids.end(), text.begin(), text.end());
        level.truncate(0, 0);
        level.prefill(0, ids);
        const std::vector<double> distribution =
            distribution_of(static_cast<const float*>(level.logits().host().data()), p);
        for (int32_t id = 0; id < kVocab; ++id) {
            if (distribution[static_cast<size_t>(id)] == 0) continue;
            text.push_back(id);
            walk(probability * distribution[static_cast<size_t>(id)]);
            text.pop_back();
        }
    };
    walk(1);
    return distributions;
}

/// p of the G-test: the probability that counts differ this much from the distribution by chance.
inline double likelihood_of(const std::map<std::vector<int32_t>, double>& distributions, const Slots& decoder,
                            const std::vector<int32_t>& prompt) {
    const GenerateRequest request{.prompt = prompt, .max_new = kTokens, .num_samples = samples()};
    GenerateStats stats;
    std::map<std::vector<int32_t>, int64_t> counts;
    for (const Continuation& c : trireme::generate(decoder, nullptr, request, stats)) ++counts[c.ids];

    // Rare continuations share a cell: the test requires an expected count of about five.
    double g = 0, rare_expected = 0;
    int64_t rare = 0, cells = 0;
    const auto cell = [&](double expected, int64_t n) {
        ++cells;
        if (n > 0) g += 2 * static_cast<double>(n) * std::log(static_cast<double>(n) / expected);
    };
    for (const auto& [ids, probability] : distributions) {
        const double expected = probability * static_cast<double>(samples());
        const auto found = counts.find(ids);
        const int64_t n = found == counts.end() ? 0 : found->second;
        if (found != counts.end()) counts.erase(found);
        if (expected < 5) {
            rare += n;
            rare_expected += expected;
        } else {
            cell(expected, n);
        }
    }
    EXPECT_TRUE(counts.empty()) << "continuations that the distribution does not have";
    if (rare_expected > 0) cell(rare_expected, rare);
    EXPECT_GT(cells, 10);
    return boost::math::cdf(boost::math::complement(boost::math::chi_squared(static_cast<double>(cells - 1)), g));
}

}  // namespace trireme::test
