#include <hwy/targets.h>

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "tests/kernels/harness.h"
#include "tests/support/sanitized.h"

namespace trireme::test {

std::unique_ptr<Device> backend_device(int threads) {
    return open_device("cpu", {.threads = threads});
}

std::string_view backend_name() {
    return "cpu";
}

void on_every_target(const std::function<void()>& body) {
    for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_EMU128, HWY_NEON}) {
        if ((hwy::SupportedTargets() & target) == 0) continue;
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        limit_byte_dots(target == HWY_AVX3 ? ByteDots::kVnni : target == HWY_AVX2 ? ByteDots::kAvx2 : ByteDots::kNone);
        body();
        if (bf16_dots()) {
            SCOPED_TRACE("without bf16 dot products");
            allow_bf16_dots(false);
            body();
            allow_bf16_dots(true);
        }
        hwy::SetSupportedTargetsForTest(0);
        limit_byte_dots(ByteDots::kVnni);
        if (kThreadSanitized) return;  // threads share the work in the same way on every target
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

DType attended_in(DType keys, DType values) {
    return keys == DType::kBF16 && values == DType::kBF16 && bf16_dots() ? DType::kBF16 : DType::kF32;
}

DType decode_attends_in(DType keys, DType values) {
    if (keys == DType::kQ8_0 && byte_dots() != ByteDots::kNone) return DType::kQ8_0;
    return attended_in(keys, values);
}

}  // namespace trireme::test
