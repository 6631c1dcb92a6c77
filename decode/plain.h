#pragma once
/// Plain: plain decoding, without speculation (--spec none): a model alone, one forward of one row per token.

#include <array>
#include <vector>

#include "decode/decode_state.h"
#include "decode/proposer.h"
#include "decode/sampling.h"

namespace trireme {

class Plain final : public Decoder {
  public:
    /// Sequence `sequence` of `model` is used by this object alone. Errors: Exit::kConfig for sampling parameters out
    /// of range.
    Plain(Level& model, const SamplingParams& sampling, uint64_t seed, int sequence = 0);

    const char* name() const override { return "plain"; }
    Level& target() override { return text_.level(); }
    int sequence() const override { return text_.sequence(); }
    const SamplingParams& sampling() const override { return sampling_; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void adopt(std::span<const int32_t> prompt) override;
    void read_on(std::span<const int32_t> text, const Progress& progress) override;
    void begin(uint32_t sample) override;
    /// Resumes sample `sample` of a conversation `text`, of which the model has computed all but at most one token; its
    /// answer has `drawn` tokens. Without a token to compute, the level's saved logits become current.
    void resume(std::span<const int32_t> text, uint32_t sample, uint32_t drawn);
    /// One token, whatever `limit` is.
    std::span<const Proposed> propose(int64_t limit) override;
    int64_t draft(int64_t limit) override;
    void append_rows(RoundRows& all) override;
    std::span<const Proposed> settle(const RoundResult& result) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void state(Archive& ar) override;

  private:
    DecodeState text_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t sample_ = 0, round_ = 0;
    RoundRows alone_;  // scratch of propose()
    std::array<Proposed, 1> proposal_;
};

}  // namespace trireme
