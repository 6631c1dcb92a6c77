#pragma once
/// LevelCosts: times of the forwards of a chain's models, measured before decoding: inputs of GammaController (--gamma
/// auto).

#include <cstdint>
#include <string>
#include <vector>

#include "decode/sampling.h"
#include "dist/comm.h"
#include "model/level.h"

namespace trireme {

/// Time of one level's forward, by number of rows. It includes the distribution of each row.
struct LevelCosts {
    struct Point {
        int64_t rows = 0;
        double ms = 0;
    };
    std::string level;          // its name in reports
    std::vector<Point> points;  // the first has one row; rows increase

    /// Interpolates and extrapolates linearly with the two nearest points; more rows never take less time.
    double ms(int64_t rows) const;
};

/// Costs of a chain: the verifying levels, outermost first, then the drafter if it is a model.
using SpecCosts = std::vector<LevelCosts>;

/// kOne: forwards of one row, for a drafter. kMany: also forwards of more and more rows, until the time grows with the
/// rows, for a level that verifies or drafts trees.
enum class MeasuredRows { kOne, kMany };
/// Measures forwards of `token` after the level's sequence, and drops their rows. All ranks call it; all get rank 0's
/// times, through `control`. It replaces the level's current logits. Errors: as Logits::sample.
LevelCosts measure_costs(std::string name, Level& level, MeasuredRows rows, const SamplingParams& sampling,
                         int32_t token, Comm& control);
/// Adds rank 0's `ms` to the costs of two rows and more: the time of work that belongs to a verify, but not to a plain
/// step. All ranks call it.
void add_to_verifies(LevelCosts& costs, double ms, Comm& control);

}  // namespace trireme
