#include "tests/model/llama/gpu_device.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::string gpu_device() {
    simt::register_backend();
    return "simt";
}

}  // namespace trireme::test
