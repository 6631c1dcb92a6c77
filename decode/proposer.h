#pragma once
/// What yields tokens. A model alone is a proposer of one token a round; a proposer checked by a model is a proposer
/// again, so that proposers form chains.

#include <cstdint>
#include <span>

#include "model/level.h"

namespace trireme {

/// The law that a token was drawn from, on the device: a row of logits and what the sampling rule leaves of it
/// (kernels/law.h). Without data: a point mass on the token itself.
struct Law {
    const RowLaw* law = nullptr;
    LogitsRow row = {};
    Event ready = {};  // behind it both are there
};

/// A proposed token behind another one, or behind the text.
struct Proposed {
    int32_t token = 0;
    int32_t parent = -1;  // an earlier one of the same proposal; -1: the text's last token
    Law law = {};         // the device holds it until the next call of the proposer
};

/// Calls come in this order: prefill() once a prompt, then for each sample begin(), and by turns propose() and
/// commit(). The text is the prompt and what has been committed since begin().
class Proposer {
  public:
    virtual ~Proposer() = default;

    /// What reports call it: "plain".
    virtual const char* name() const = 0;

    /// Forgets everything and reads a prompt, of at least one token. Blocks until done.
    virtual void prefill(std::span<const int32_t> prompt, const Progress& progress) = 0;
    /// Sample i begins, in the state after the prefill. It depends on the seed and i alone.
    virtual void begin(uint32_t sample) = 0;
    /// Tokens behind the text so far, none deeper than `limit`, which is at least 1; there may be none. A chain's
    /// parents are -1, 0, 1, ... Valid until the next call.
    virtual std::span<const Proposed> propose(int64_t limit) = 0;
    /// What has become of the last proposal: the tokens of this path of it, in order, are text now, and behind them
    /// `next`, which somebody else drew; -1: nothing. An empty path may come without a proposal.
    virtual void commit(std::span<const int32_t> path, int32_t next = -1) = 0;
    /// The last n committed tokens are not text after all; `next` stands behind what is left; -1: nothing.
    virtual void rewind(int64_t n, int32_t next) = 0;
    /// What has been committed so far will not be taken back.
    virtual void settle() {}
    /// What it knows of the text, between the outermost proposer's commit() and propose(), or behind begin(); the
    /// tiles of the model that has a full view are told elsewhere (FullView::tiles). Errors: Exit::kData where what is
    /// read is of another chain.
    virtual void state(Archive&) { check(false, "{}: what it knows cannot be kept", name()); }
};

/// A proposer whose tokens have the law of a model: what generate() takes. Several may share a model, one at a time.
class Decoder : public Proposer {
  public:
    /// As prefill(), where the target holds the prompt already: another decoder's prefill() of it was the target's
    /// last.
    virtual void adopt(std::span<const int32_t> prompt) = 0;
    /// The model: vocabulary, context, its view of the KV.
    virtual Level& target() = 0;
};

}  // namespace trireme
