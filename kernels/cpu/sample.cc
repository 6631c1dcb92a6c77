/// Sampling: a row of logits to a token (kernels/sampling.h).

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/ops.h"

namespace trireme {
namespace {

struct Candidate {
    float logit;
    int32_t id;

    bool operator<(const Candidate& b) const { return logit != b.logit ? logit > b.logit : id < b.id; }
};

uint64_t weight(float logit, float top, float scale) {
    const float below = logit - top;  // an infinite scale must not meet 0
    const float x = below == 0 ? 0 : below * scale;
    return static_cast<uint64_t>(std::exp2(x) * SamplingRule::kFirstWeight);
}

/// Elements in front of the shortest head that weighs `least` or more, and itself.
size_t head(const uint64_t* weights, size_t n, uint64_t least) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i) {
        sum += weights[i];
        if (sum >= least) return i + 1;
    }
    return n;
}

uint64_t total(const uint64_t* weights, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += weights[i];
    return sum;
}

int32_t draw(Candidate* candidates, size_t n, uint64_t* weights, uint64_t u, const SamplingRule& rule) {
    if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < n) {
        std::nth_element(candidates, candidates + rule.top_k, candidates + n);
        n = static_cast<size_t>(rule.top_k);
    }
    std::sort(candidates, candidates + n);
    for (size_t i = 0; i < n; ++i) weights[i] = weight(candidates[i].logit, candidates[0].logit, rule.scale);
    if (rule.top_p < SamplingRule::kOne) n = head(weights, n, part_of(total(weights, n), rule.top_p, /*up=*/true));
    while (n > 1 && weights[n - 1] < rule.min_weight) --n;
    return candidates[head(weights, n, part_of(total(weights, n), u, /*up=*/false) + 1) - 1].id;
}

}  // namespace

size_t sample_scratch(const KernelLimits& limits) {
    return static_cast<size_t>(limits.vocab) * (sizeof(Candidate) + sizeof(uint64_t));
}

void sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms, const SamplingRule& rule,
            void* scratch) {
    auto* weights = static_cast<uint64_t*>(scratch);
    auto* candidates = reinterpret_cast<Candidate*>(weights + vocab);
    const int64_t parts = logits.dim(0), rows = logits.dim(1), cols = logits.dim(2);
    for (int64_t r = 0; r < rows; ++r) {
        size_t n = 0;
        Candidate best{-std::numeric_limits<float>::infinity(), 0};
        bool nan = false;
        for (int64_t part = 0; part < parts; ++part) {
            const float* x = static_cast<const float*>(logits.data()) + (part * rows + r) * cols;
            const int64_t first = part * cols, end = std::min(cols, vocab - first);
            for (int64_t c = 0; c < end; ++c) {
                nan |= std::isnan(x[c]);
                const Candidate here{x[c], static_cast<int32_t>(first + c)};
                if (x[c] > best.logit) best = here;
                if (rule.scale != 0 && x[c] > -std::numeric_limits<float>::infinity()) candidates[n++] = here;
            }
        }
        require(!nan && std::isfinite(best.logit), Exit::kData, "{}", kNoLaw);
        const auto u = static_cast<uint64_t>(static_cast<const int64_t*>(uniforms.data())[r]);
        static_cast<int32_t*>(ids.data())[r] = rule.scale == 0 ? best.id : draw(candidates, n, weights, u, rule);
    }
}

}  // namespace trireme
