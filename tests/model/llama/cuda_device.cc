#include "runtime/module.h"
#include "tests/model/llama/gpu_device.h"

namespace trireme::test {

std::string gpu_device() {
    load_cuda_module();
    return "cuda";
}

}  // namespace trireme::test
