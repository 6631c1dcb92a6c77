#include "kernels/cuda/attention.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendTile<float, 1>);
TRIREME_KERNEL(AttendTile<float, 2>);
TRIREME_KERNEL(AttendTile<float, 4>);
TRIREME_KERNEL(AttendTile<AnyType, 1>);
TRIREME_KERNEL(AttendTile<AnyType, 2>);
TRIREME_KERNEL(AttendTile<AnyType, 4>);

}  // namespace trireme::gpu
