#include "kernels/cuda/sample.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(Sample);

}  // namespace trireme::gpu
