#pragma once
/// Logits to a distribution to a token; a pure function of (logits, parameters, uniform).

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// Applied in this order, as Hugging Face and TriForce do: temperature, top-k, top-p, min-p.
struct SamplingParams {
    double temperature = 0.8;  // 0: argmax, lowest id on ties; filters are ignored
    int64_t top_k = 40;        // 0: off
    double top_p = 0.95;       // 1: off
    double min_p = 0.05;       // 0: off

    bool greedy() const { return temperature == 0; }
    /// Errors: Exit::kConfig naming the option, its value and the legal range.
    void validate() const;
};

/// Ids with non-zero probability, sorted by falling probability, then rising id; probabilities sum to 1.
struct Distribution {
    std::vector<int32_t> ids;
    std::vector<double> p;

    double of(int32_t id) const;
    /// The id at which the running sum, in the order above, first exceeds u in [0, 1).
    int32_t draw(double u) const;
};

/// Reuses its memory from call to call.
class Sampler {
  public:
    explicit Sampler(const SamplingParams& params);
    const SamplingParams& params() const { return params_; }

    /// Errors: Exit::kData when a logit is NaN or all are -inf.
    const Distribution& distribution(std::span<const float> logits);
    int32_t argmax(std::span<const float> logits) const;
    /// argmax at temperature 0, else a draw with the uniform u.
    int32_t sample(std::span<const float> logits, double u);

  private:
    SamplingParams params_;
    Distribution dist_;
    std::vector<int32_t> order_;
};

}  // namespace trireme
