#pragma once
/// Expected values of doctor's measurements on known hardware, and remedies. Pure functions.

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

/// The expected value, in GB/s or microseconds as in Measured, for `device`, named as its driver names it, and `ranks`
/// ranks on one node. Nothing: not known.
std::optional<double> expected(Measure what, std::string_view device, int ranks);

/// Returns a line for each measure, with the expected value. If a rate is below 0.8 times or a latency above 1.25 times
/// that value, the next line is the first remedy.
std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks);

}  // namespace trireme
