#include "runtime/cuda/copy_bytes.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(CopyBytes);

}  // namespace trireme::gpu
