#pragma once
/// What yields tokens. A model alone is a proposer of one token a round; a proposer checked by a model is a proposer
/// again, so that proposers form chains.

#include <cstdint>
#include <span>

#include "model/level.h"

namespace trireme {

/// The law that a token was drawn from: row `row` of logits on the device, weighed by `rule` (kernels/sampling.h).
/// Without logits: a point mass on the token itself.
struct Law {
    Tensor logits = {};  // f32 [parts, rows, cols], id = part * cols + column, as Kernels::sample takes them
    int64_t row = 0;
    SamplingRule rule = {};
};

/// A proposed token behind another one, or behind the text.
struct Proposed {
    int32_t token = 0;
    int32_t parent = -1;  // an earlier one of the same proposal; -1: the text's last token
    Law law = {};         // the device holds it until the next call of the proposer
};

/// Calls come in this order: prefill() once a prompt, then for each sample begin(), and by turns propose() and
/// commit().
class Proposer {
  public:
    virtual ~Proposer() = default;

    /// What reports call it: "plain".
    virtual const char* name() const = 0;
    /// The model whose law the tokens have: vocabulary, context, its view of the KV.
    virtual Level& target() = 0;

    /// Forgets everything and reads a prompt, of at least one token. Blocks until done.
    virtual void prefill(std::span<const int32_t> prompt, const Progress& progress) = 0;
    /// Sample i begins, in the state after the prefill. It depends on the seed and i alone.
    virtual void begin(uint32_t sample) = 0;
    /// Tokens behind the text so far: at least one, none deeper than `limit`. A chain's parents are 0, 1, .. from the
    /// second token on. Valid until the next call.
    virtual std::span<const Proposed> propose(int64_t limit) = 0;
    /// What has become of the last proposal: the tokens of this path of it, in order, are text now, and behind them
    /// `next`, which somebody else drew; -1: nothing.
    virtual void commit(std::span<const int32_t> path, int32_t next = -1) = 0;
};

}  // namespace trireme
