#pragma once
/// Drafter: the innermost proposer of a chain that is a model. It samples tokens one by one, in one forward each, and
/// keeps their distributions for the verifier.

#include <cstdint>
#include <string>
#include <vector>

#include "decode/branched_chain.h"
#include "decode/decode_state.h"
#include "decode/draft_distributions.h"
#include "decode/proposer.h"
#include "decode/sampling.h"

namespace trireme {

class Drafter final : public Proposer {
  public:
    /// `model` is used by this object alone, and proposes at most `gamma` tokens a round. `name` is a literal. `level`:
    /// its number in the chain, above 0 (DrawKey). Errors: as DraftDistributions.
    Drafter(const char* name, Device& device, Level& model, const SamplingParams& sampling, uint64_t seed,
            uint32_t level, int64_t gamma);

    const char* name() const override { return name_; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    void widen(int64_t siblings) override { siblings_ = siblings; }
    /// A chain of at most `limit` tokens, and their siblings.
    std::span<const Proposed> propose(int64_t limit) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void commit() override;
    void state(Archive& ar) override;

  private:
    void draw(int64_t i, int64_t rows, uint32_t round);

    const char* name_;
    DecodeState text_;
    DraftDistributions held_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t level_, sample_ = 0, round_ = 0;
    std::vector<Row> rows_;
    std::vector<double> uniforms_;
    std::vector<int32_t> ends_;
    int64_t siblings_ = 0;
    BranchedChain proposal_;
};

}  // namespace trireme
