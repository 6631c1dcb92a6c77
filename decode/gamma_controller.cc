#include "decode/gamma_controller.h"

#include <algorithm>
#include <cmath>

#include "decode/branched_chain.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

constexpr double kRemembered = 64;     // tokens in the counts, effectively; recent ones weigh more
constexpr double kProbeRemembers = 4;  // older tokens count as at most this many, so that a probe's outcome decides
constexpr int64_t kProbed = 3;         // most tokens of a probe, if such a short proposal can pay
constexpr int64_t kWait = 32;          // least tokens between probes
constexpr int64_t kMostDoublings = 5;  // of the wait; each failure doubles it
constexpr double kSiblingGain = 0.99;  // siblings must cut the time per token to this fraction: drawing them takes time
constexpr double kProbeShare = 0.01;   // fraction of the time that probes may cost at first

}  // namespace

void GammaController::set_costs(const LevelCosts& verifier, const GammaController* inner, double token_ms) {
    inner_ = inner;
    proposed_ms_ = token_ms;
    for (int64_t rows = 1; rows <= kMaxRows; ++rows) verify_ms_[index(rows)] = verifier.ms(rows);
}

void GammaController::set_costs(const LevelCosts& verifier, std::vector<Draft> by_gamma) {
    set_costs(verifier, nullptr, 0);
    drafts_ = std::move(by_gamma);
}

// A chain of n tokens is verified in a forward of n + 1 rows.
GammaController::Draft GammaController::draft(int64_t gamma, double token_ms) const {
    if (drafts_.empty()) return {static_cast<double>(gamma) * token_ms, gamma + 1};
    return drafts_[index(gamma - 1)];
}

// A proposal of depth g yields 1 + alpha + ... + alpha^g tokens on average.
GammaController::Choice GammaController::best(double alpha, int64_t most) const {
    const double one_ms = proposed_ms(), alone_ms = verify_ms(1);
    if (!drafts_.empty()) most = std::min(most, static_cast<int64_t>(drafts_.size()));
    Choice best = {0, kGain * alone_ms};
    double tokens = 1, stay = 1;
    for (int64_t g = 1; g <= std::min(most, kMost); ++g) {
        stay *= alpha;
        tokens += stay;
        const auto [draft_ms, rows] = draft(g, one_ms);
        const Choice choice = {g, (draft_ms + verify_ms(rows)) / tokens};
        if (fixed_ != kAuto ? g <= fixed_ : choice.token_ms < best.token_ms) best = choice;
    }
    if (best.gamma == 0) best.token_ms = alone_ms;
    return best;
}

double GammaController::token_ms() const {
    return best(alpha(), kMost).token_ms;
}

// Length of a probe: a few tokens suffice, but they must pay if all are accepted. 0: no length pays even then.
int64_t GammaController::probe() const {
    const int64_t few = best(1, kProbed).gamma;
    return few > 0 ? few : best(1, kMost).gamma;
}

int64_t GammaController::next(int64_t most, bool first) const {
    if (fixed_ != kAuto || !state_.off) return best(alpha(), most).gamma;
    return first && state_.wait == 0 ? std::min(most, probe()) : 0;
}

// The verifier accepts a sibling with probability `theirs` after it has rejected the drafted token and the siblings
// before it. Then the round has one token more.
int64_t GammaController::siblings(int64_t gamma, int64_t rows) const {
    if (!drafts_.empty() || state_.off || gamma <= 0) return 0;
    const double stays = alpha(), theirs = state_.rescued / (state_.rescued + state_.missed);
    double chain = 1, all_stay = 1;  // tokens of a round without siblings; probability that no token is rejected
    for (int64_t i = 0; i < gamma; ++i) chain += all_stay *= stays;
    const double draft_ms = static_cast<double>(gamma) * proposed_ms();
    int64_t best = 0;
    double least_ms = kSiblingGain * (draft_ms + verify_ms(1 + gamma)) / chain;
    const int64_t most = std::min(BranchedChain::kMostSiblings, rows / gamma - 1);
    for (int64_t n = 1; n <= most; ++n) {
        const double rescued = (1 - all_stay) * (1 - std::pow(1 - theirs, static_cast<double>(n)));
        const double ms = (draft_ms + verify_ms(1 + gamma * (1 + n))) / (chain + rescued);
        if (ms >= least_ms) continue;
        least_ms = ms;
        best = n;
    }
    return best;
}

// Tokens until the next probe: so long that the extra cost of the probe is a small fraction of the time.
int64_t GammaController::wait() const {
    const int64_t n = probe();
    const auto [draft_ms, rows] = n == 0 ? Draft{0, 1} : draft(n, proposed_ms());
    const double lost = draft_ms + verify_ms(rows) - verify_ms(1);
    const double tokens = std::min(1e6, std::ceil(lost / (kProbeShare * verify_ms(1))));
    return std::max(kWait, static_cast<int64_t>(tokens)) << std::min(state_.failures, kMostDoublings);
}

// Of a chain, a token that a sibling replaces was rejected. A tree's depth counts whichever sibling is accepted.
void GammaController::observe(const Outcome& outcome) {
    Outcome o = outcome;
    State& s = state_;
    check(o.accepted >= 0 && o.residual >= 0 && o.rescued >= 0 && o.accepted + o.residual + o.rescued <= o.tokens,
          "draft length: {} accepted, {} residual and {} siblings of {} tokens", o.accepted, o.residual, o.rescued,
          o.tokens);
    (drafts_.empty() ? o.residual : o.accepted) += o.rescued;
    for (int64_t i = 0; i < o.rescued + o.missed; ++i) {
        s.rescued *= 1 - 1 / kRemembered;
        s.missed *= 1 - 1 / kRemembered;
        ++(i < o.rescued ? s.rescued : s.missed);
    }
    const int64_t seen = o.accepted + o.residual;
    if (s.off && seen > 0) {
        const double fade = std::min(1.0, kProbeRemembers / (s.accepted + s.residual));
        s.accepted *= fade;
        s.residual *= fade;
    }
    for (int64_t i = 0; i < seen; ++i) {
        s.accepted *= 1 - 1 / kRemembered;
        s.residual *= 1 - 1 / kRemembered;
        ++(i < o.accepted ? s.accepted : s.residual);
    }
    if (fixed_ != kAuto) return;
    const bool pays = best(alpha(), kMost).gamma > 0;
    if (s.off) {
        if (seen > 0 && pays) {
            s.off = false;
            s.paid = 0;
        } else if (seen > 0 && o.residual == 0) {
            s.wait = 0;  // all were accepted: probe again at once
        } else if (o.asked) {
            s.wait = wait();
            if (seen > 0) ++s.failures;
        } else {
            s.wait = std::max<int64_t>(0, s.wait - o.tokens);
        }
        return;
    }
    s.paid += seen;
    if (s.paid >= static_cast<int64_t>(kRemembered)) s.failures = 0;
    if (pays) return;
    s.off = true;
    s.wait = wait();
    ++s.failures;
}

void set_costs(std::span<GammaController> gammas, const SpecCosts& costs) {
    const size_t n = gammas.size();
    check(costs.size() == n || costs.size() == n + 1, "draft gammas: costs of {} models for {} levels", costs.size(),
          n);
    const double token_ms = costs.size() > n ? costs[n].ms(1) : 0;
    for (size_t i = 0; i < n; ++i) gammas[i].set_costs(costs[i], i + 1 < n ? &gammas[i + 1] : nullptr, token_ms);
}

}  // namespace trireme
