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
    /// Sequence 0 of `model` is used by this object alone. Errors: Exit::kConfig for sampling parameters out of range.
    Plain(Level& model, const SamplingParams& sampling, uint64_t seed);

    const char* name() const override { return "plain"; }
    Level& target() override { return text_.level(); }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void adopt(std::span<const int32_t> prompt) override;
    void begin(uint32_t sample) override;
    /// One token, whatever `limit` is.
    std::span<const Proposed> propose(int64_t limit) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void state(Archive& ar) override;

  private:
    DecodeState text_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t sample_ = 0, round_ = 0;
    std::vector<Row> rows_;
    std::array<Proposed, 1> proposal_;
};

}  // namespace trireme
