#pragma once
/// Expected values of doctor's measurements on known GPUs, and remedies for values that are worse. For kHostRead it is
/// the rate that the links of all ranks need. Pure functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Measure {
    kHostRead,        // host memory, read by all ranks of a node together
    kDeviceCopy,      // device memory, bytes read plus bytes written
    kH2d,             // pinned host memory to device
    kD2h,             // device to pinned host memory
    kReduceLatency,   // an all-reduce of 16 KiB
    kReduceBandwidth  // an all-reduce of 64 MiB: bytes that a rank sends
};

struct Measured {
    Measure what;
    double value;  // GB/s; kReduceLatency: microseconds
};

/// The expected value, in Measured's unit, for a device whose driver calls it `device`, and `ranks` ranks on one node.
/// Nothing: not known.
std::optional<double> expected(Measure what, std::string_view device, int ranks);

/// Returns doctor's lines: each measured value and, if known, the expected one. If a rate is below 0.8 times or a
/// latency above 1.25 times the expected value, the next line is a remedy.
std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks);

}  // namespace trireme
