#pragma once
/// What hardware that is recognised should do, and what to look at first where it does not. Pure.

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

/// GB/s or microseconds, of `device` by its name as the driver says it and `ranks` ranks on one node. Nothing: not
/// known.
std::optional<double> expected(Measure what, std::string_view device, int ranks);

/// A line a measure, with its expectation; where one is missed by more than a fifth, the first remedy below it.
std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks);

}  // namespace trireme
