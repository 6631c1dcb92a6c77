#pragma once
/// What a round of a chain takes and gives, from what its levels' forwards take and how often proposed tokens stay: the
/// round model of triforce.md, section 0, with the draft lengths that this engine uses. Pure arithmetic.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/draft_length.h"

namespace trireme {

/// A level that checks what the next one, or whoever proposes first, proposes to it.
struct CheckingLevel {
    std::string name;
    double stays = 0;                     // probability that a token proposed to it stays, from 0 to 1
    int64_t length = DraftLength::kAuto;  // tokens that it asks for at a time; kAuto: as many as are fastest, or none
    std::function<double(int64_t rows)> ms;  // of a forward; not called for the outermost level
};

struct RoundForecast {
    struct Level {
        std::string name;
        int64_t length = 0;   // tokens that it asks for at a time
        double forwards = 0;  // in a round
    };
    std::vector<Level> levels;  // those that check, the outermost first
    double drafted = 0;         // tokens that whoever proposes first computed, in a round
    double draft_ms = 0;        // everything before the outermost level's forward
    double round_ms = 0, tokens = 0;

    double token_ms() const { return round_ms / tokens; }
};

/// `checks`: the outermost first, at least one. `token_ms`: what a token takes whoever proposes first. `round_ms`: a
/// round whose last forward, the outermost level's, has so many rows and begins so many milliseconds after the one
/// before it ended. Of the outermost level's lengths that may be chosen the fastest one; 0: plain decoding is.
RoundForecast forecast_round(std::span<const CheckingLevel> checks, double token_ms,
                             const std::function<double(int64_t rows, double draft_ms)>& round_ms);

}  // namespace trireme
