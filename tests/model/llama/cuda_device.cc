#include "runtime/module.h"
#include "tests/model/llama/engine_device.h"

namespace trireme::test {

std::string engine_device() {
    load_cuda_module();
    return "cuda";
}

}  // namespace trireme::test
