#include "tests/model/llama/gpu_device.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::string gpu_device() {
    static const bool registered = (simt::register_backend(), true);
    return registered ? "simt" : "";
}

}  // namespace trireme::test
