#pragma once
/// A model as a chain of one: every round is one forward of one row, and yields one token.

#include "decode/chain.h"
#include "decode/sampling.h"
#include "model/level.h"

namespace trireme {

class Plain final : public Chain {
  public:
    /// The prompt is committed in sequence 0 and its last logits are at hand: the model keeps them.
    Plain(Level& model, const SamplingParams& sampling, uint64_t seed);

    const char* name() const override { return "plain"; }
    void begin(uint32_t sample) override;
    std::span<const int32_t> round(int64_t limit) override;

  private:
    Level& model_;
    SamplingParams sampling_;
    uint64_t seed_;
    int64_t prompt_tokens_;
    uint32_t sample_ = 0, round_ = 0;
    int32_t token_ = -1;  // drawn, not yet computed
};

}  // namespace trireme
