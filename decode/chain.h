#pragma once
/// A chain of models that yields accepted tokens. Plain decoding is a chain of one: one token a round.

#include <cstdint>
#include <span>

namespace trireme {

class Chain {
  public:
    virtual ~Chain() = default;

    /// What the engine calls the chain in reports: "plain".
    virtual const char* name() const = 0;
    /// Starts sample i from the state after prefill: `prompt_tokens` committed, their last logits at hand.
    virtual void begin(uint32_t sample) = 0;
    /// The next accepted tokens, at least one, at most `limit`. The span is valid until the next call.
    virtual std::span<const int32_t> round(int64_t limit) = 0;
};

}  // namespace trireme
