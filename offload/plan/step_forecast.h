#pragma once
/// Forecast of a decode step's time under a plan on a machine, for `trireme plan`. Pure arithmetic.

#include <cstddef>
#include <cstdint>

#include "offload/plan/plan.h"

namespace trireme {

/// The forecast of one decode step on one rank. Times in milliseconds.
struct StepForecast {
    size_t h2d_bytes = 0;   // tiles that are copied to the device
    double copy_ms = 0;     // time the link is busy
    double compute_ms = 0;  // time the device is busy, between_ms not included
    double step_ms = 0;     // from the end of the step before: between_ms, then copies and compute overlapped
};
/// Forecasts a step in the steady state: one row of each sequence, all at context length `length`. It simulates the
/// copies through ring and frames and the reads of the layers. Compute time is the time to read memory; it does not
/// include that rows of many sequences may take longer to multiply. More than kMaxRows sequences take several forwards.
/// `between_ms`: the device's work before each step, during which the ring fills. Errors: Exit::kInternal if the
/// machine's rates are not known.
StepForecast forecast(const PlanInput& input, const Plan& plan, const Machine& machine, int64_t length,
                      double between_ms = 0);
/// Bytes that such a step reads on the device: weights, keys and values. Tokens that sequences share are read once.
double step_bytes(const PlanInput& input, int64_t length);

}  // namespace trireme
