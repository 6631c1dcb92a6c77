#include "kernels/cuda/accept.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(Accept);

}  // namespace trireme::gpu
