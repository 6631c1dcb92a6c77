#include "kernels/cuda/attention.h"

#include "kernels/cuda/merge_tiles.h"
#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendTile<f16, 1>);
TRIREME_KERNEL(AttendTile<f16, 2>);
TRIREME_KERNEL(AttendTile<f16, 4>);
TRIREME_KERNEL(AttendTile<bf16, 1>);
TRIREME_KERNEL(AttendTile<bf16, 2>);
TRIREME_KERNEL(AttendTile<bf16, 4>);
TRIREME_KERNEL(AttendTile<q8_0, 1>);
TRIREME_KERNEL(AttendTile<q8_0, 2>);
TRIREME_KERNEL(MergeTiles);

}  // namespace trireme::gpu
