#include "decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/error.h"

namespace trireme {

void SamplingParams::validate() const {
    require(std::isfinite(temperature) && temperature >= 0, Exit::kConfig, "--temp {}: want 0 (greedy) or more",
            temperature);
    require(top_k >= 0, Exit::kConfig, "--top-k {}: want 0 (off) or more", top_k);
    require(top_p > 0 && top_p <= 1, Exit::kConfig, "--top-p {}: want a number in (0, 1]; 1 is off", top_p);
    require(min_p >= 0 && min_p <= 1, Exit::kConfig, "--min-p {}: want a number in [0, 1]; 0 is off", min_p);
}

double Distribution::of(int32_t id) const {
    const auto at = std::find(ids.begin(), ids.end(), id);
    return at == ids.end() ? 0 : p[static_cast<size_t>(at - ids.begin())];
}

int32_t Distribution::draw(double u) const {
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
        sum += p[i];
        if (u < sum) return ids[i];
    }
    return ids.back();  // the sum fell short of 1 by rounding, and u into the gap
}

Sampler::Sampler(const SamplingParams& params) : params_(params) {
    params_.validate();
}

int32_t Sampler::argmax(std::span<const float> logits) const {
    size_t best = 0;
    bool nan = false;
    for (size_t i = 0; i < logits.size(); ++i) {
        nan |= std::isnan(logits[i]);
        if (logits[i] > logits[best]) best = i;
    }
    require(!nan && !logits.empty() && std::isfinite(logits[best]), Exit::kData,
            "the model gave logits without a finite maximum: its weights overflow in this precision; try --dtype f32");
    return static_cast<int32_t>(best);
}

const Distribution& Sampler::distribution(std::span<const float> logits) {
    const float top = logits[static_cast<size_t>(argmax(logits))];
    if (params_.greedy()) {
        dist_.ids.assign(1, argmax(logits));
        dist_.p.assign(1, 1.0);
        return dist_;
    }
    order_.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > -std::numeric_limits<float>::infinity()) order_.push_back(static_cast<int32_t>(i));
    }
    const auto before = [&](int32_t a, int32_t b) {
        const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    };
    if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < order_.size()) {
        std::nth_element(order_.begin(), order_.begin() + params_.top_k, order_.end(), before);
        order_.resize(static_cast<size_t>(params_.top_k));
    }
    std::sort(order_.begin(), order_.end(), before);

    dist_.ids.assign(order_.begin(), order_.end());
    dist_.p.clear();
    double sum = 0;
    for (const int32_t id : order_) {
        dist_.p.push_back(std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - top) / params_.temperature));
        sum += dist_.p.back();
    }
    // top-p keeps the shortest head whose mass reaches top_p, the token that crosses it included.
    size_t kept = dist_.p.size();
    double mass = 0;
    for (size_t i = 0; params_.top_p < 1 && i < kept; ++i) {
        mass += dist_.p[i] / sum;
        if (mass >= params_.top_p) kept = i + 1;
    }
    while (kept > 1 && dist_.p[kept - 1] < params_.min_p * dist_.p[0]) --kept;

    dist_.ids.resize(kept);
    dist_.p.resize(kept);
    sum = 0;
    for (const double p : dist_.p) sum += p;
    for (double& p : dist_.p) p /= sum;
    return dist_;
}

int32_t Sampler::sample(std::span<const float> logits, double u) {
    return params_.greedy() ? argmax(logits) : distribution(logits).draw(u);
}

}  // namespace trireme
