// Memory of operands, for backends that compute on the host: an inaccessible page follows it.

#include "tests/kernels/harness.h"
#include "tests/support/fence.h"

namespace trireme::test {

void* backend_allocate(size_t bytes) {
    return fenced_allocate(bytes);
}

void backend_free(void* data, size_t bytes) noexcept {
    fenced_free(data, bytes);
}

}  // namespace trireme::test
