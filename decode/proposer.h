#pragma once
/// Proposer: an object that yields the next tokens of a sequence, a few in each round. A model alone is a proposer of
/// one token a round. A proposer together with a model that verifies its tokens (Speculate) is again a proposer, so
/// proposers form chains.

#include <cstdint>
#include <span>
#include <vector>

#include "model/level.h"

namespace trireme {

/// The distribution that a token was sampled from, on the device: a row of logits, and the result of the sampling
/// filters (RowDistribution). Default-constructed, it is a point mass on the token.
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
/// is the prompt and the tokens that resolve() and rewind() have appended since begin(). generate() calls the outermost
/// proposer; each verifier calls the next inner one.
class Proposer {
  public:
    virtual ~Proposer() = default;

    /// The name in reports, for example "plain".
    virtual const char* name() const = 0;

    /// Discards all state and reads a prompt of at least one token. Blocks until done.
    virtual void prefill(std::span<const int32_t> prompt, const Progress& progress) = 0;
    /// Begins a sample in the state after the prefill. Its draws depend on the seed and this number only.
    virtual void begin(uint32_t sample) = 0;
    /// Proposes tokens to follow the sequence. `limit`, at least 1, is a depth: at most so long a chain, or so deep a
    /// tree, which may have more tokens. The proposal may be empty. A chain's parents are -1, 0, 1, ... Valid until the
    /// next call.
    virtual std::span<const Proposed> propose(int64_t limit) = 0;
    /// From now on each proposed token gets up to n siblings (BranchedChain), n <= kMostSiblings. Then the proposal has
    /// at most limit * (1 + n) tokens, which must be below kMaxRows. A proposer without distributions, or of trees,
    /// ignores it.
    virtual void widen(int64_t /*n*/) {}
    /// Whether it chooses the number of tokens itself, from costs. Then a gamma controller is not asked.
    virtual bool chooses() const { return false; }
    /// Reports the outcome and appends accepted tokens to the sequence. `path`: their indices in the last proposal,
    /// from the first depth on. `next`: the token that the verifier sampled after them; -1: none. An empty path is also
    /// allowed without a proposal.
    virtual void resolve(std::span<const int32_t> path, int32_t next = -1) = 0;
    /// Removes the last n tokens of the sequence, none of them final (commit), then appends `next` unless it is -1.
    virtual void rewind(int64_t n, int32_t next) = 0;
    /// Makes all tokens of the sequence final: rewind() will not remove them.
    virtual void commit() {}
    /// Serialises the proposer's state. Call it between the outermost resolve() and propose(), or right after begin().
    /// Tiles of the model with the full cache are serialised separately (FullCache::tiles). Errors: Exit::kData if the
    /// archive is of another chain.
    virtual void state(Archive&) { check(false, "{}: what it knows cannot be kept", name()); }
};

/// Rows of one forward, of one or several sequences, and the draws that follow it.
struct RoundRows {
    std::vector<Row> rows;
    std::vector<double> uniforms;  // [rows]: what Logits::sample draws a row's token with; 0 where none is drawn
    bool draws = false;            // some decoder requires drawn tokens
    bool accepts = false;          // some decoder calls Logits::accept

    void clear() {
        rows.clear();
        uniforms.clear();
        draws = accepts = false;
    }
};

/// What that forward computed for one sequence.
struct RoundResult {
    int64_t end = 0;  // its rows are the last ones before this row of the logits
    std::span<const int32_t> drawn =
        {};                 // [rows of the forward]: Logits::sample's tokens, if its decoder requires them
    uint64_t begin_ns = 0;  // when the forward began
};

/// A proposer whose tokens have a model's distribution, as the run loop requires (loop.h). It uses one
/// sequence of the model; several decoders may use the same sequence, one at a time.
///
/// The run loop calls the three parts of a round instead of propose(): draft() for each sequence, append_rows() for as
/// many as one forward takes, and after that forward settle() for each of them. Then resolve().
class Decoder : public Proposer {
  public:
    /// Like prefill(), if the sequence already holds the prompt.
    virtual void adopt(std::span<const int32_t> prompt) = 0;
    /// Reads the end of a conversation: `text` begins with the tokens that the target has computed. Later samples begin
    /// after it. Blocks until done.
    virtual void read_on(std::span<const int32_t> text, const Progress& progress) = 0;
    /// The level of that model, with its vocabulary, context and cache of the KV cache; and the sequence in it.
    virtual Level& target() = 0;
    virtual int sequence() const = 0;
    virtual const SamplingParams& sampling() const = 0;

    /// Drafts at most `limit` - 1 tokens. Returns the number of rows that the target must compute, at most kMaxRows; 0
    /// right after begin(): the target's current logits then give the next token, and settle() may be called at once.
    virtual int64_t draft(int64_t limit) = 0;
    /// Appends these rows.
    virtual void append_rows(RoundRows& all) = 0;
    /// Returns the round's tokens, a chain; valid until the next call.
    virtual std::span<const Proposed> settle(const RoundResult& result) = 0;
};

}  // namespace trireme
