#include "runtime/cuda/copy_bytes.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(CopyBytes);

const void* copy_kernel() {
    return reinterpret_cast<const void*>(run_body<CopyBytes>);
}

}  // namespace trireme::gpu
