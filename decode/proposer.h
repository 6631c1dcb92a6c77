#pragma once
/// Proposer: an object that yields tokens. A model alone is a proposer of one token a round. A proposer whose tokens a
/// model verifies is again a proposer, so proposers form chains.

#include <cstdint>
#include <span>

#include "model/level.h"

namespace trireme {

/// The distribution that a token was sampled from, on the device: a row of logits, and the result of the sampling
/// filters (RowDistribution). Without data it is a point mass on the token.
struct Distribution {
    const RowDistribution* distribution = nullptr;
    LogitsRow row = {};
    Event ready = {};  // after it, both are available
};

/// A proposed token, which follows another one or the sequence.
struct Proposed {
    int32_t token = 0;
    int32_t parent = -1;             // index of an earlier token of the proposal; -1: the sequence's last token
    Distribution distribution = {};  // valid on the device until the proposer's next call
};

/// Call prefill() once per prompt; then for each sample begin(), and propose() and resolve() alternately. The sequence
/// is the prompt and the tokens committed since begin().
class Proposer {
  public:
    virtual ~Proposer() = default;

    /// The name in reports, for example "plain".
    virtual const char* name() const = 0;

    /// Discards all state and reads a prompt of at least one token. Blocks until done.
    virtual void prefill(std::span<const int32_t> prompt, const Progress& progress) = 0;
    /// Begins a sample in the state after the prefill. Its draws depend on the seed and this number only.
    virtual void begin(uint32_t sample) = 0;
    /// Proposes tokens to follow the sequence, none deeper than `limit`, which is at least 1. There may be none. A
    /// chain's parents are -1, 0, 1, ... Valid until the next call.
    virtual std::span<const Proposed> propose(int64_t limit) = 0;
    /// Reports the outcome: `path` of the last proposal was accepted; `next` was sampled by the verifier after it (-1:
    /// none). An empty path is also allowed without a proposal.
    virtual void resolve(std::span<const int32_t> path, int32_t next = -1) = 0;
    /// Rolls back the last n committed tokens, then appends `next` unless it is -1.
    virtual void rewind(int64_t n, int32_t next) = 0;
    /// Makes all committed tokens final: they will not be rolled back.
    virtual void commit() {}
    /// Serialises the proposer's state. Call it between the outermost resolve() and propose(), or right after begin().
    /// Tiles of the model with the full view are serialised separately (FullView::tiles). Errors: Exit::kData if the
    /// archive is of another chain.
    virtual void state(Archive&) { check(false, "{}: what it knows cannot be kept", name()); }
};

/// A proposer whose tokens have a model's distribution, as generate() requires. They may share a model, one at a time.
class Decoder : public Proposer {
  public:
    /// Like prefill(), if the target already holds the prompt from another decoder's prefill(), which was its last.
    virtual void adopt(std::span<const int32_t> prompt) = 0;
    /// The model, with its vocabulary, context and view of the KV cache.
    virtual Level& target() = 0;
};

}  // namespace trireme
