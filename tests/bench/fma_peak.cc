#include "tests/bench/fma_peak.h"

#include <chrono>
#include <stdexcept>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSums = 12;  // more than latency times width of any known core, fewer than the registers

/// Returns the number of operations.
double multiply_add(int steps, float& result) {
    const hn::ScalableTag<float> d;
    const auto x = hn::Set(d, result), y = hn::Set(d, 0.5f);
    hn::Vec<decltype(d)> sum[kSums];
    for (int j = 0; j < kSums; ++j) sum[j] = hn::Set(d, static_cast<float>(j));
    for (int i = 0; i < steps; ++i) {
        for (int j = 0; j < kSums; ++j) sum[j] = hn::MulAdd(sum[j], y, x);
    }
    for (int j = 0; j < kSums; ++j) result += hn::GetLane(sum[j]);
    return 2.0 * kSums * steps * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::bench {

HWY_EXPORT(multiply_add);

double fma_peak() {
    float x = 1;
    const auto begin = std::chrono::steady_clock::now();
    const double operations = HWY_DYNAMIC_DISPATCH(multiply_add)(400'000, x);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!(x > 0)) throw std::runtime_error("FMA measurement was optimised away");
    return operations / seconds;
}

}  // namespace trireme::bench
#endif  // HWY_ONCE
