#include "kernels/cuda/attention_prefill.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendPrefill<f16, 64>);
TRIREME_KERNEL(AttendPrefill<f16, 128>);
TRIREME_KERNEL(AttendPrefill<bf16, 64>);
TRIREME_KERNEL(AttendPrefill<bf16, 128>);
TRIREME_KERNEL(AttendPrefill<f16, 64, false, q8_0>);
TRIREME_KERNEL(AttendPrefill<f16, 128, false, q8_0>);

}  // namespace trireme::gpu
