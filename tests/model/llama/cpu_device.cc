#include "tests/model/llama/engine_device.h"

namespace trireme::test {

std::string engine_device() {
    return "cpu";
}

bool ranks_as_threads() {
    return true;
}

}  // namespace trireme::test
