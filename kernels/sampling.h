#pragma once
/// Sampling of tokens from logits, by integer weights, so that no backend and no order of adding can change a draw.
///
/// Token i has the weight floor(2^40 * 2^((logit_i - top) log2(e) / temperature)); power_of_two (power_of_two.h)
/// computes the power in f32. Tokens are ordered by falling logit, then rising id. Filters apply in the order of
/// Hugging Face and TriForce, each to what the one before it kept: top-k keeps the first k; top-p the shortest prefix
/// whose weights reach top_p of their sum; min-p tokens whose weight is at least min_p of the first's. The uniform u,
/// in [0, 1), draws the first token at which the running sum of the kept weights exceeds u times their sum.

#include <cmath>
#include <cstdint>

namespace trireme {

/// Sampling parameters of a run. temperature >= 0, top_k >= 0, 0 < top_p <= 1, 0 <= min_p <= 1.
struct SamplingParams {
    double temperature = 0.8;  // 0: the largest logit, lowest id on ties; filters are ignored
    int64_t top_k = 40;        // 0: off
    double top_p = 0.95;       // 1: off
    double min_p = 0.05;       // 0: off

    bool greedy() const { return temperature == 0; }
    bool operator==(const SamplingParams&) const = default;
};

/// The sampling parameters as kernels take them.
struct SamplingRule {
    static constexpr int kFractionBits = 53;                         // of u and top_p
    static constexpr uint64_t kOne = uint64_t{1} << kFractionBits;   // 1 as a fraction
    static constexpr float kFirstWeight = float(uint64_t{1} << 40);  // weight of the first token

    float scale = 0;          // log2(e) / temperature; 0: greedy
    int64_t top_k = 0;        // 0: off
    uint64_t top_p = 0;       // times 2^53; 2^53: off
    uint64_t min_weight = 0;  // tokens with smaller weights are dropped, after top-k and top-p
};

/// Converts parameters to the form that kernels take.
inline SamplingRule rule_of(const SamplingParams& p) {
    if (p.greedy()) return {};
    return {.scale = static_cast<float>(M_LOG2E / p.temperature),
            .top_k = p.top_k,
            .top_p = static_cast<uint64_t>(p.top_p * static_cast<double>(SamplingRule::kOne)),
            .min_weight = static_cast<uint64_t>(std::ceil(p.min_p * static_cast<double>(SamplingRule::kFirstWeight)))};
}

/// fraction * sum / 2^53 as an integer, rounded down or up. (nvcc also compiles a constexpr function for the GPU.)
constexpr uint64_t part_of(uint64_t sum, uint64_t fraction, bool up) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(fraction) * sum + (up ? SamplingRule::kOne - 1 : 0);
    return static_cast<uint64_t>(product >> SamplingRule::kFractionBits);
}

/// Message for a row that has no distribution.
inline constexpr const char* kNoDistribution =
    "the model gave logits without a finite maximum: its weights overflow in this precision; try f32 weights";

/// Converts a uniform to the form that kernels take: times 2^53.
inline int64_t fraction_of(double u) {
    return static_cast<int64_t>(u * static_cast<double>(SamplingRule::kOne));
}

}  // namespace trireme
