// Operands of backends that compute on the host.

#include <new>

#include "tests/kernels/harness.h"

namespace trireme::test {

void* backend_allocate(size_t bytes) {
    return ::operator new(bytes);
}

void backend_free(void* data, size_t) noexcept {
    ::operator delete(data);
}

}  // namespace trireme::test
