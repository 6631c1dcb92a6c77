#pragma once
/// How many tokens to propose, or how deep a tree of them: as many as make the fewest milliseconds a token, none where
/// speculation gains next to nothing. It weighs what forwards take by what became of the tokens that stayed, so that
/// ranks which know the same choose alike. Nothing that was thrown away has a say.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/spec_costs.h"

namespace trireme {

/// The lengths of one level's proposals. A proposed token stays with a probability alpha, whatever its place; alpha is
/// learnt from the recent text. Where no length pays there are no proposals but for a few tokens now and then, more and
/// more seldom while they fail.
class DraftLength {
  public:
    static constexpr int64_t kAuto = 0, kMost = kMaxRows - 1;

    /// Always `fixed` tokens, or kAuto.
    explicit DraftLength(int64_t fixed = kAuto) : fixed_(fixed) {}

    /// What its forwards take, and a proposed token of `inner` or, where inner is null, of somebody who takes
    /// `token_ms` for each. To be told before next(); `inner` must outlive this object.
    void know(const LevelCosts& verifier, const DraftLength* inner, double token_ms);

    /// The same where what is proposed is no chain but, for each length from 1 on, this: what drafting it takes, and
    /// the rows of a forward that checks it.
    struct Draft {
        double ms = 0;
        int64_t rows = 0;
    };
    void know(const LevelCosts& verifier, std::vector<Draft> by_length);

    /// A text begins.
    void begin() { state_ = {}; }
    /// What it has learnt of the text.
    void state(Archive& ar) {
        ar.section("draft length");
        ar.value(state_);
    }
    /// Of the next round: tokens to ask for, at most `most`; 0: none. `first`: nothing was asked for since saw().
    int64_t next(int64_t most, bool first) const;
    /// What has become text since the last call.
    struct Outcome {
        int64_t tokens = 0;    // all of them
        int64_t accepted = 0;  // that were proposed and stayed
        int64_t residual = 0;  // that stand where a proposed one did not stay
        bool asked = false;    // the first round had proposals
    };
    void saw(const Outcome& outcome);

    /// What a token of this level takes: what the level above pays for one that it asks for.
    double token_ms() const;
    /// The part of proposed tokens that stays, as far as is known.
    double alpha() const { return state_.accepted / (state_.accepted + state_.residual); }

  private:
    struct Choice {
        int64_t length;
        double token_ms;
    };
    Choice best(double alpha, int64_t most) const;
    Draft draft(int64_t length, double token_ms) const;
    double proposed_ms() const { return inner_ == nullptr ? proposed_ms_ : inner_->token_ms(); }
    double verify_ms(int64_t rows) const { return verify_ms_[static_cast<size_t>(rows)]; }
    int64_t probe() const;
    int64_t wait() const;

    int64_t fixed_;
    const DraftLength* inner_ = nullptr;
    double proposed_ms_ = 0;                           // a proposed token, where inner_ is null
    std::array<double, kMaxRows + 1> verify_ms_ = {};  // by rows
    std::vector<Draft> drafts_;                        // by length - 1; empty: chains
    /// What begin() resets. Counts are of the recent text; they begin as if three tokens of four had stayed.
    struct State {
        double accepted = 3, residual = 1;
        bool off = false;
        int64_t wait = 0;      // tokens until it asks again, while off
        int64_t failures = 0;  // of asking
        int64_t paid = 0;      // tokens seen since it is on again
    } state_;
};

/// Tells the lengths of a chain's levels, the outermost first, what its table says.
void know(std::span<DraftLength> lengths, const SpecCosts& costs);

}  // namespace trireme
