#pragma once
/// Rates that known hardware should reach, and what to look at first where it does not. Pure arithmetic.

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

/// In GB/s or microseconds, for a `device` (the driver's name of it) and `ranks` ranks on one node. Nothing: not known.
std::optional<double> expected(Measure what, std::string_view device, int ranks);

/// A line a measure, with its expectation; where one is missed by more than a fifth, the first remedy below it.
std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks);

}  // namespace trireme
