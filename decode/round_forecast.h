#pragma once
/// Forecast of one speculation round for `trireme plan`: its time and tokens, from forward costs and acceptance
/// probabilities. It is the round model of triforce.md, section 0, with the draft gammas that this engine uses. Pure
/// arithmetic.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/gamma_controller.h"

namespace trireme {

/// A verifying level. The next inner level, or the drafter, proposes tokens to it.
struct CheckingLevel {
    std::string name;
    double alpha = 0;                        // probability that a token proposed to it is accepted, 0 to 1
    int64_t gamma = GammaController::kAuto;  // tokens requested at a time; kAuto: the fastest number, 0 included
    std::function<double(int64_t rows)> ms;  // time of a forward, in ms; not called for the outermost level
};

/// Averages over rounds. Times in milliseconds.
struct RoundForecast {
    struct Level {
        std::string name;
        int64_t gamma = 0;    // tokens requested at a time
        double forwards = 0;  // per round
    };
    std::vector<Level> levels;        // verifying levels, outermost first
    double drafted = 0;               // tokens that the drafter computes per round
    double draft_ms = 0;              // time before the outermost level's forward
    double round_ms = 0, tokens = 0;  // time of the round; tokens that it appends to the sequence

    double token_ms() const { return round_ms / tokens; }
};

/// `checks`: the verifying levels, outermost first, at least one. `token_ms`: the drafter's time per token. `round_ms`:
/// the time of a round whose outermost forward has `rows` rows and begins `draft_ms` after the previous one ended. If
/// the outermost gamma is kAuto, the forecast uses the fastest one; 0: plain decoding is the fastest.
RoundForecast forecast_round(std::span<const CheckingLevel> checks, double token_ms,
                             const std::function<double(int64_t rows, double draft_ms)>& round_ms);

}  // namespace trireme
