#pragma once
/// What known hardware should reach in doctor's measurements, and what to look at first where it does not. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Measure { kHostRead, kDeviceCopy, kH2d, kD2h, kReduceLatency, kReduceBandwidth };

struct Measured {
    Measure what;
    double value;  // GB/s; kReduceLatency: microseconds
};

/// The expected value, GB/s or microseconds as in Measured, for `device`, named as the driver names it, and `ranks`
/// ranks on one node. Nothing: not known.
std::optional<double> expected(Measure what, std::string_view device, int ranks);

/// A line for each measure, with the expected value; below it the first remedy, if a rate is below 0.8 or a latency
/// above 1.25 times that.
std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks);

}  // namespace trireme
