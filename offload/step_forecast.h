#pragma once
/// What a decode step of a plan costs on a machine. Pure arithmetic.

#include <cstddef>
#include <cstdint>

#include "offload/plan.h"

namespace trireme {

/// A decode step of one row of each sequence, behind `length` tokens, in the steady state; of more than kMaxRows
/// sequences it takes several forwards. It simulates the copies through ring and frames and the reads of the layers;
/// the machine's rates must be known. Compute is what the device reads: that rows of many sequences may take longer to
/// multiply is not in it. Times in milliseconds. `between_ms`: what the device does before each step, in which the ring
/// fills.
struct StepForecast {
    size_t h2d_bytes = 0;
    double copy_ms = 0;     // time the link is busy
    double compute_ms = 0;  // time the device is busy, between_ms not included
    double step_ms = 0;     // from the end of the step before: between_ms, then copies and compute overlapped
};
StepForecast forecast(const PlanInput& input, const Plan& plan, const Machine& machine, int64_t length,
                      double between_ms = 0);
/// What that step reads on the device, bytes: weights, and keys and values. What sequences have in common is read once.
double step_bytes(const PlanInput& input, int64_t length);

}  // namespace trireme
