#include "kernels/cuda/attention_split.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendSplit<bf16, 64, 1>);
TRIREME_KERNEL(AttendSplit<bf16, 64, 2>);
TRIREME_KERNEL(AttendSplit<bf16, 64, 4>);
TRIREME_KERNEL(AttendSplit<bf16, 96, 1>);
TRIREME_KERNEL(AttendSplit<bf16, 96, 2>);
TRIREME_KERNEL(AttendSplit<bf16, 96, 4>);
TRIREME_KERNEL(AttendSplit<bf16, 128, 1>);
TRIREME_KERNEL(AttendSplit<bf16, 128, 2>);
TRIREME_KERNEL(AttendSplit<bf16, 256, 1>);

}  // namespace trireme::gpu
