#include "decode/spec_costs.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

// One number of rows is timed at least kRepeats times and for kShortMs, but not again after kLongMs. The first forward
// of a level may take many times as long as later ones: at least kLeast are timed, unless forwards are slow.
constexpr int kRepeats = 5, kLeast = 3;
constexpr double kShortMs = 8, kLongMs = 40;
constexpr double kSlowMs = 100;  // if a forward of one row takes longer, forwards are timed singly, at few points
// Over a link the time is that of the copy until the rows take longer to compute. Between 1 and 32 rows alone, that
// bend would be missed, and rows that are free would seem to cost time.
constexpr int64_t kSlowRows = 8, kMostSlowRows = 32;
// Then all points are timed again in turn, so often, because other load on the machine comes and goes: it must not make
// one number of rows look cheaper than another. On a shared machine, points that were timed one after the other had
// errors of 40 %.
constexpr int kPasses = 4;
constexpr double kAsTheRows = 1.6;  // if twice the rows take this many times as long, the time grows with the rows

/// Returns rank 0's value on all ranks.
double of_first(double mine, Comm& control) {
    std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
    control.broadcast(bytes);
    double value = 0;
    check(bytes.size() == sizeof value, "costs: {} bytes of rank 0", bytes.size());
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

class Meter {
  public:
    Meter(Level& level, const SamplingParams& sampling, int32_t token, Comm& control)
        : level_(level), sampling_(sampling), token_(token), control_(control) {}

    /// Returns the least of several times: the first forward of a size may load kernels, the second may record a graph.
    /// Rank 0's times decide the number of repetitions, so all ranks repeat alike.
    double least(int64_t n) {
        double spent = 0, least = 0;
        const auto more = [&](int i) {
            if (i < kLeast) return i == 0 || least < kSlowMs;
            return spent < kLongMs && (i < kRepeats || spent < kShortMs);
        };
        for (int i = 0; more(i); ++i) {
            const double ms = once(n);
            least = i == 0 ? ms : std::min(least, ms);
            spent += ms;
        }
        return least;
    }

    /// The time of one forward.
    double once(int64_t n) {
        rows_.clear();
        const auto first = static_cast<int32_t>(level_.length());
        for (int32_t i = 0; i < n; ++i) rows_.push_back({.token = token_, .position = first + i, .parent = i - 1});
        uniforms_.assign(static_cast<size_t>(n), 0.5);
        level_.stream().synchronize();
        const uint64_t begin = trace::now();
        level_.forward(rows_);
        level_.logits().sample(sampling_, uniforms_, /*distributions=*/true);
        const double mine = static_cast<double>(trace::now() - begin) * 1e-6;
        level_.cache().drop();
        return of_first(mine, control_);
    }

  private:
    Level& level_;
    SamplingParams sampling_;
    int32_t token_;
    Comm& control_;
    std::vector<Row> rows_;
    std::vector<double> uniforms_;
};

}  // namespace

double LevelCosts::ms(int64_t rows) const {
    check(!points.empty(), "costs of {}: none are known", level);
    const Point *a = &points.front(), *b = a;
    double least = a->ms;  // lower bound: the cost of fewer rows
    for (size_t i = 1; i < points.size(); ++i) {
        if (b->rows >= rows) break;
        a = b;
        b = &points[i];
        least = std::max(least, a->ms);
    }
    if (a == b) return least;
    const double part = static_cast<double>(rows - a->rows) / static_cast<double>(b->rows - a->rows);
    return std::max(least, a->ms + part * (b->ms - a->ms));
}

void add_to_verifies(LevelCosts& costs, double ms, Comm& control) {
    const double more = of_first(ms, control);
    for (LevelCosts::Point& p : costs.points) p.ms += p.rows > 1 ? more : 0;
}

LevelCosts measure_costs(std::string name, Level& level, MeasuredRows which, const SamplingParams& sampling,
                         int32_t token, Comm& control) {
    LevelCosts costs{.level = std::move(name), .points = {}};
    Meter meter(level, sampling, token, control);
    const int64_t room = level.context() - level.length();
    const int64_t most = std::min(room, which == MeasuredRows::kOne ? 1 : kMaxRows);
    for (int64_t rows = 1; rows <= most;) {
        const double before = costs.points.empty() ? 0 : costs.points.back().ms;
        double ms = meter.least(rows);
        // Measure again: other load on the machine, or a slow first forward of many rows, must not count.
        if (ms > kAsTheRows * before) ms = std::min(ms, meter.least(rows));
        costs.points.push_back({rows, ms});
        if (rows > 1 && ms > kAsTheRows * before) break;
        const bool slow = costs.points.front().ms > kSlowMs;
        if (slow && (rows >= kMostSlowRows || ms > kAsTheRows * costs.points.front().ms)) break;
        rows = slow && rows == 1 ? kSlowRows : 2 * rows;
    }
    check(!costs.points.empty(), "costs of {}: no room after {} tokens", costs.level, level.length());
    for (int pass = 0; pass < kPasses && costs.points.front().ms <= kSlowMs; ++pass) {
        for (LevelCosts::Point& p : costs.points) p.ms = std::min(p.ms, meter.once(p.rows));
    }
    return costs;
}

}  // namespace trireme
