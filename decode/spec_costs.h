#pragma once
/// What the forwards of a chain's models take: what draft lengths are weighed by (draft_length.h).

#include <cstdint>
#include <string>
#include <vector>

#include "decode/sampling.h"
#include "dist/comm.h"
#include "model/level.h"

namespace trireme {

/// Of one level, by the number of rows, the law of each row included.
struct LevelCosts {
    struct Point {
        int64_t rows = 0;
        double ms = 0;
    };
    std::string level;          // what reports call it
    std::vector<Point> points;  // the first of one row; rows rise

    /// Between the points and beyond them as on the straight line through the nearest two; more rows never take less.
    double ms(int64_t rows) const;
};

/// Of a chain: those that check, the outermost first; then who proposes, if that is a model.
using SpecCosts = std::vector<LevelCosts>;

/// Measures forwards of `token` behind the level's text, and drops them: of one row, or of more and more until further
/// rows cost what the last ones did. All ranks call it; all get rank 0's
/// times, through `control`. Afterwards the level's current logits are others. Errors: as Level::sample.
enum class MeasuredRows { kOne, kMany };
LevelCosts measure_costs(std::string name, Level& level, MeasuredRows rows, const SamplingParams& sampling,
                         int32_t token, Comm& control);

}  // namespace trireme
