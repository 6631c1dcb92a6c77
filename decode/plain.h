#pragma once
/// A model as a chain of one: every round is one forward of one row, and yields one token.

#include <vector>

#include "decode/chain.h"
#include "decode/sampler.h"
#include "model/llama.h"

namespace trireme {

class Plain final : public Chain {
  public:
    /// The prompt is committed in sequence 0 and its last logits are at hand: they are copied here.
    Plain(Llama& model, const SamplingParams& sampling, uint64_t seed);

    const char* name() const override { return "plain"; }
    void begin(uint32_t sample) override;
    std::span<const int32_t> round(int64_t limit) override;

  private:
    Llama& model_;
    Sampler sampler_;
    uint64_t seed_;
    int64_t prompt_tokens_;
    std::vector<float> prompt_logits_;
    uint32_t sample_ = 0, round_ = 0;
    int32_t token_ = -1;  // drawn, not yet computed
};

}  // namespace trireme
