#include "runtime/module.h"
#include "tests/model/llama/engine_device.h"

namespace trireme::test {

std::string engine_device() {
    load_cuda_module();
    return "cuda";
}

bool ranks_as_threads() {
    return false;
}

}  // namespace trireme::test
