#include <hwy/targets.h>

#include "tests/kernels/harness.h"

namespace trireme::test {

std::unique_ptr<Device> backend_device(int threads) {
    return open_device("cpu", {.threads = threads});
}

void on_every_target(const std::function<void()>& body) {
    for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_EMU128, HWY_NEON}) {
        if ((hwy::SupportedTargets() & target) == 0) continue;
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        body();
        hwy::SetSupportedTargetsForTest(0);
    }
}

std::vector<int> thread_counts() {
    return kSanitized ? std::vector<int>{2} : std::vector<int>{1, 2, 3, 5};
}

bool emulated() {
    return false;
}

DType multiplied_in(DType weights) {
    return weights == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

DType attended_in(DType, DType) {
    return DType::kF32;
}

}  // namespace trireme::test
