#pragma once
/// Peak rate of independent multiply-adds on one core: the limit of prefill.

namespace trireme::bench {

/// Floating-point operations per second of one thread, over about a millisecond.
double fma_peak();

}  // namespace trireme::bench
