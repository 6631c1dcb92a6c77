#include "dist/cuda/sum_parts.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(SumParts);

}  // namespace trireme::gpu
