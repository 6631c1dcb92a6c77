// Stand-in for NVIDIA's driver: returns what environment variables request, and can do nothing else.

#include <cstdlib>

namespace {

int told(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : otherwise;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
    *version = told("STUB_DRIVER_VERSION", 13000);
    return 0;
}
int cuInit(unsigned) {
    return told("STUB_DRIVER_INIT", 0);
}
int cuDeviceGetCount(int* cards) {
    *cards = told("STUB_DRIVER_CARDS", 0);
    return 0;
}
}
