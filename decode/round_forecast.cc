#include "decode/round_forecast.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

constexpr int64_t kMost = GammaController::kMost;

/// Expected cost and composition of one proposal.
struct Collected {
    double ms = 0, drafted = 0;
    std::vector<double> forwards;  // of the verifying levels below, outermost first
};
using Proposals = std::vector<Collected>;  // by number of tokens, 0 to kMost

/// Expected tokens of a round: the accepted ones of g proposed tokens, and the one that follows them.
double tokens_of(double alpha, int64_t g) {
    double tokens = 1, all = 1;
    for (int64_t i = 0; i < g; ++i) tokens += all *= alpha;
    return tokens;
}

int64_t fastest_gamma(const CheckingLevel& level, const Proposals& inner) {
    const auto token_ms = [&](int64_t g) { return (inner[index(g)].ms + level.ms(g + 1)) / tokens_of(level.alpha, g); };
    int64_t best = 0;
    for (int64_t g = 1; g <= kMost; ++g) {
        if (token_ms(g) < token_ms(best)) best = g;
    }
    return best;
}

/// A level collects n tokens in rounds. Each requests g tokens: `gamma`, or one fewer than are missing. It yields k
/// tokens, the level's own included, with probability alpha^(k - 1) (1 - alpha), and g + 1 with alpha^g.
Proposals proposals_of(const CheckingLevel& level, const Proposals& inner, int64_t gamma) {
    Proposals all(1, {.forwards = std::vector<double>(inner[0].forwards.size() + 1)});
    for (int64_t n = 1; n <= kMost; ++n) {
        const int64_t g = std::min(gamma, n - 1);
        const Collected& asked = inner[index(g)];
        Collected p = {.ms = asked.ms + level.ms(g + 1), .drafted = asked.drafted, .forwards = {1}};
        p.forwards.insert(p.forwards.end(), asked.forwards.begin(), asked.forwards.end());
        for (int64_t k = 1; k <= g + 1; ++k) {
            const double ends = k <= g ? 1 - level.alpha : 1;
            const double chance = std::pow(level.alpha, static_cast<double>(k - 1)) * ends;
            const Collected& rest = all[index(n - k)];
            p.ms += chance * rest.ms;
            p.drafted += chance * rest.drafted;
            for (size_t i = 0; i < p.forwards.size(); ++i) p.forwards[i] += chance * rest.forwards[i];
        }
        all.push_back(std::move(p));
    }
    return all;
}

}  // namespace

RoundForecast forecast_round(std::span<const CheckingLevel> checks, double token_ms,
                             const std::function<double(int64_t rows, double draft_ms)>& round_ms) {
    check(!checks.empty(), "round forecast: no level verifies");
    Proposals proposals;
    for (int64_t n = 0; n <= kMost; ++n) {
        proposals.push_back(
            {.ms = static_cast<double>(n) * token_ms, .drafted = static_cast<double>(n), .forwards = {}});
    }
    std::vector<int64_t> gammas;  // the innermost first
    for (size_t i = checks.size(); i-- > 1;) {
        const CheckingLevel& level = checks[i];
        gammas.push_back(level.gamma == GammaController::kAuto ? fastest_gamma(level, proposals) : level.gamma);
        proposals = proposals_of(level, proposals, gammas.back());
    }

    RoundForecast best;
    const CheckingLevel& outermost = checks.front();
    const auto with = [&](int64_t g) {
        const Collected& p = proposals[index(g)];
        RoundForecast f = {.levels = {{outermost.name, g, 1}},
                           .drafted = p.drafted,
                           .draft_ms = p.ms,
                           .round_ms = round_ms(g + 1, p.ms),
                           .tokens = tokens_of(outermost.alpha, g)};
        for (size_t i = 1; i < checks.size(); ++i) {
            f.levels.push_back({checks[i].name, gammas[checks.size() - 1 - i], p.forwards[i - 1]});
        }
        return f;
    };
    if (outermost.gamma != GammaController::kAuto) return with(outermost.gamma);
    for (int64_t g = 0; g <= kMost; ++g) {
        RoundForecast f = with(g);
        if (g == 0 || f.token_ms() < best.token_ms()) best = std::move(f);
    }
    return best;
}

}  // namespace trireme
