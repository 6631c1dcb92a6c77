#pragma once
/// Forecast of a decode step's time under a plan on a machine. Pure arithmetic.

#include <cstddef>
#include <cstdint>

#include "offload/plan.h"

namespace trireme {

/// A decode step of one row of each sequence, at context length `length`, in the steady state. More than kMaxRows
/// sequences take several forwards. The forecast simulates the copies through ring and frames and the reads of the
/// layers; the machine's rates must be known. Compute time is the time to read memory; it does not include that rows of
/// many sequences may take longer to multiply. Times in milliseconds. `between_ms`: the device's work before each step,
/// during which the ring fills.
struct StepForecast {
    size_t h2d_bytes = 0;
    double copy_ms = 0;     // time the link is busy
    double compute_ms = 0;  // time the device is busy, between_ms not included
    double step_ms = 0;     // from the end of the step before: between_ms, then copies and compute overlapped
};
StepForecast forecast(const PlanInput& input, const Plan& plan, const Machine& machine, int64_t length,
                      double between_ms = 0);
/// Bytes that this step reads on the device: weights, keys and values. Tokens that sequences share are read once.
double step_bytes(const PlanInput& input, int64_t length);

}  // namespace trireme
