#pragma once
/// What one core gives to independent multiply-adds of registers: the limit of prefill.

namespace trireme::bench {

/// Floating-point operations per second of one thread, over about a millisecond.
double fma_peak();

}  // namespace trireme::bench
