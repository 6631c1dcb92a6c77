#include "kernels/cpu/bf16_dots.h"

#include <atomic>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bf16_dots.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/pairs-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

bool target_has_pairs() {
    return TRIREME_PAIRS != 0;
}

void round_to_pairs_body(const float* from, int64_t n, bf16* to, int64_t padded) {
    round_row(from, to, n);
    std::memset(static_cast<void*>(to + n), 0, static_cast<size_t>(padded - n) * sizeof(bf16));
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(target_has_pairs);
HWY_EXPORT(round_to_pairs_body);

namespace {

bool cpu_has_them() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16") != 0;
#else
    return false;
#endif
}

std::atomic<bool> allowed_here{cpu_has_them()};

}  // namespace

// hwy::SupportedTargets() queries the CPU each time, which takes 15 us in a virtual machine; the dispatch table does
// not.
bool bf16_dots() {
    return allowed_here.load(std::memory_order_relaxed) && HWY_DYNAMIC_DISPATCH(target_has_pairs)();
}

bool attends_pairs(const KvLayout& l) {
    constexpr int64_t kRegister = 32;  // elements
    return l.k_type == DType::kBF16 && l.v_type == DType::kBF16 && l.head_dim % kRegister == 0 && bf16_dots();
}

void round_to_pairs(const float* from, int64_t n, bf16* to, int64_t padded) {
    HWY_DYNAMIC_DISPATCH(round_to_pairs_body)(from, n, to, padded);
}

void allow_bf16_dots(bool allowed) {
    allowed_here.store(allowed && cpu_has_them(), std::memory_order_relaxed);
}

}  // namespace trireme
#endif  // HWY_ONCE
