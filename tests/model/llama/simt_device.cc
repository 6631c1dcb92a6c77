#include "tests/model/llama/engine_device.h"
#include "tests/simt/kernels.h"

namespace trireme::test {

std::string engine_device() {
    simt::register_backend();
    return "simt";
}

bool ranks_as_threads() {
    return true;
}

}  // namespace trireme::test
