#include "tests/model/llama/engine_device.h"

namespace trireme::test {

std::string engine_device() {
    return "cpu";
}

}  // namespace trireme::test
