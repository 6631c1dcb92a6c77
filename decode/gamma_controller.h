#pragma once
/// GammaController: decides how many tokens a level requests from its proposer in a round, or how deep a tree
/// (--gamma). It minimises milliseconds per token, and requests nothing where speculation gains next to nothing. It
/// uses only forward costs and the acceptance of emitted tokens, so all ranks choose alike. Discarded tokens do not
/// affect it.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/spec_costs.h"
#include "runtime/index.h"

namespace trireme {

/// It assumes that a proposed token is accepted with probability alpha at every depth, and estimates alpha from recent
/// tokens; likewise for the siblings of a rejected token. If no gamma pays, it is off: it only requests short probes
/// now and then, more and more rarely while they fail.
class GammaController {
  public:
    static constexpr int64_t kAuto = 0, kMost = kMaxRows - 1;
    static constexpr int64_t kAutoSiblings = -1;  // siblings() decides
    /// Proposals must cut the time per token to at most this fraction: times have errors, and not all are measured.
    static constexpr double kGain = 0.95;

    /// `fixed`: tokens to propose in every round; kAuto: adaptive.
    explicit GammaController(int64_t fixed = kAuto) : fixed_(fixed) {}

    /// Sets the costs of the verifier's forwards and of a proposed token. The latter costs inner->token_ms(), which
    /// changes with its estimates, or `token_ms` if inner is null. Call it before next(). `inner` must outlive this
    /// object.
    void set_costs(const LevelCosts& verifier, const GammaController* inner, double token_ms);

    /// A proposal that is not a chain: the time to draft it, and the rows of the forward that verifies it.
    struct Draft {
        double ms = 0;
        int64_t rows = 0;
    };
    /// Sets the costs if proposals are trees: by_gamma[i] is the tree of depth i + 1.
    void set_costs(const LevelCosts& verifier, std::vector<Draft> by_gamma);

    /// Resets it for a new sequence.
    void begin() { state_ = {}; }
    /// Serialises what it has estimated from the sequence.
    void state(Archive& ar) {
        ar.section("draft shape");
        ar.value(state_);
    }
    /// Returns the number of tokens to request in the next round, or the tree's depth, at most `most`; 0: no proposal.
    /// `first`: whether this is the first call since observe(); probes are requested only then.
    int64_t next(int64_t most, bool first) const;
    /// Returns the number of siblings of each drafted token (BranchedChain) that minimises milliseconds per token. The
    /// `gamma` tokens and their siblings are at most `rows`. 0 for trees, and while it is off.
    int64_t siblings(int64_t gamma, int64_t rows) const;
    /// Tokens that were emitted since the last observe().
    struct Outcome {
        int64_t tokens = 0;    // all emitted tokens
        int64_t accepted = 0;  // proposed tokens that were accepted, without `rescued`
        int64_t residual = 0;  // tokens sampled in place of a rejected one
        int64_t rescued = 0;   // later siblings that were accepted in place of a rejected one
        int64_t missed = 0;    // later siblings that were rejected
        bool asked = false;    // the first round of these had proposals
    };
    /// Updates the estimates. To be called for tokens that are final, in order.
    void observe(const Outcome& outcome);

    /// Predicted milliseconds per token of this level: the cost of a token that it proposes to the next outer level.
    double token_ms() const;
    /// The estimated probability that a proposed token is accepted.
    double alpha() const { return state_.accepted / (state_.accepted + state_.residual); }

  private:
    struct Choice {
        int64_t gamma;
        double token_ms;
    };
    Choice best(double alpha, int64_t most) const;
    Draft draft(int64_t gamma, double token_ms) const;
    double proposed_ms() const { return inner_ == nullptr ? proposed_ms_ : inner_->token_ms(); }
    double verify_ms(int64_t rows) const { return verify_ms_[index(rows)]; }
    int64_t probe() const;
    int64_t wait() const;

    int64_t fixed_;
    const GammaController* inner_ = nullptr;
    double proposed_ms_ = 0;                           // of a proposed token, if inner_ is null
    std::array<double, kMaxRows + 1> verify_ms_ = {};  // by number of rows
    std::vector<Draft> drafts_;                        // by gamma - 1; empty: chains
    /// The state that begin() resets. Old tokens count less; the counts begin as if three of four tokens were accepted.
    struct State {
        double accepted = 3, residual = 1;
        double rescued = 2, missed = 2;  // later siblings
        bool off = false;
        int64_t wait = 0;      // tokens until the next probe, while off
        int64_t failures = 0;  // probes that failed, and times it was switched off
        int64_t paid = 0;      // verified tokens since it was last switched on
    } state_;
};

/// Installs a cost table in the controllers of a chain, outermost level first. Without costs of a drafter (an n-gram
/// lookup), drafting costs nothing.
void set_costs(std::span<GammaController> gammas, const SpecCosts& costs);

}  // namespace trireme
