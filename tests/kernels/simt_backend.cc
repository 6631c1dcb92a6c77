// The GPU kernels' bodies, on the host.

#include "tests/kernels/harness.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::unique_ptr<Device> backend_device(int threads) {
    return open_device("cpu", {.threads = threads});
}

void* backend_allocate(size_t bytes) {
    return ::operator new(bytes);
}

void backend_free(void* data, size_t) noexcept {
    ::operator delete(data);
}

std::unique_ptr<Kernels> backend_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    return simt::make_kernels(device, stream, phase, limits);
}

void on_every_target(const std::function<void()>& body) {
    body();
}

std::vector<int> thread_counts() {
    return {1};
}

bool emulated() {
    return true;
}

DType multiplied_in(DType weights) {
    return weights;
}

DType attended_in(DType keys, DType values) {
    return keys == values ? keys : DType::kF32;
}

}  // namespace trireme::test
