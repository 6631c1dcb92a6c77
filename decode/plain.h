#pragma once
/// A model alone: every round is one forward of one row, and yields one token.

#include <array>

#include "decode/proposer.h"
#include "decode/sampling.h"

namespace trireme {

class Plain final : public Proposer {
  public:
    /// Sequence 0 of `model` is its own. Errors: Exit::kConfig for sampling parameters out of range.
    Plain(Level& model, const SamplingParams& sampling, uint64_t seed);

    const char* name() const override { return "plain"; }
    Level& target() override { return model_; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    std::span<const Proposed> propose(int64_t limit) override;
    void commit(std::span<const int32_t> path, int32_t next) override;

  private:
    Level& model_;
    SamplingParams sampling_;
    uint64_t seed_;
    int64_t prompt_tokens_ = 0;
    uint32_t sample_ = 0, round_ = 0;
    int32_t last_ = -1;  // the text's last token, which is not computed yet; -1: the prompt's, which is
    std::array<Proposed, 1> proposal_;
};

}  // namespace trireme
