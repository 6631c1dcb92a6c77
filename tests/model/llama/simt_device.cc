#include "tests/model/llama/engine_device.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::string engine_device() {
    simt::register_backend();
    return "simt";
}

}  // namespace trireme::test
