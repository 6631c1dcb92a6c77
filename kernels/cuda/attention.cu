#include "kernels/cuda/attention.h"

#include "kernels/cuda/merge_splits.h"
#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendTile<q8_0, 1>);
TRIREME_KERNEL(AttendTile<q8_0, 2>);
TRIREME_KERNEL(MergeSplits<TileSplits>);
TRIREME_KERNEL(MergeSplits<GradedSplits>);

}  // namespace trireme::gpu
