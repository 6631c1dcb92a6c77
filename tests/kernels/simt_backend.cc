// Backend: the bodies of the GPU's kernels, on the host.

#include "tests/kernels/harness.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::string_view backend_name() {
    return "simt";
}

std::unique_ptr<Device> backend_device(int threads) {
    simt::register_backend();
    return open_device("simt", {.threads = threads});
}

bool emulated() {
    return true;
}

}  // namespace trireme::test
