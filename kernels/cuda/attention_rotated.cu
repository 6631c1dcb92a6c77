#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_prefill.h"
#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendTile<f16, 1, true>);
TRIREME_KERNEL(AttendTile<f16, 2, true>);
TRIREME_KERNEL(AttendTile<f16, 4, true>);
TRIREME_KERNEL(AttendTile<bf16, 1, true>);
TRIREME_KERNEL(AttendTile<bf16, 2, true>);
TRIREME_KERNEL(AttendTile<bf16, 4, true>);
TRIREME_KERNEL(AttendTile<float, 1, true>);
TRIREME_KERNEL(AttendTile<float, 2, true>);
TRIREME_KERNEL(AttendTile<float, 4, true>);
TRIREME_KERNEL(AttendTile<AnyType, 1, true>);
TRIREME_KERNEL(AttendTile<AnyType, 2, true>);
TRIREME_KERNEL(AttendTile<AnyType, 4, true>);
TRIREME_KERNEL(AttendPrefill<f16, 64, true>);
TRIREME_KERNEL(AttendPrefill<f16, 128, true>);
TRIREME_KERNEL(AttendPrefill<bf16, 64, true>);
TRIREME_KERNEL(AttendPrefill<bf16, 128, true>);

}  // namespace trireme::gpu
