#include "kernels/cuda/attention_prefill.h"

#include "kernels/cuda/device_gpu.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(AttendPrefill<f16, 64>);
TRIREME_KERNEL(AttendPrefill<f16, 128>);
TRIREME_KERNEL(AttendPrefill<bf16, 64>);
TRIREME_KERNEL(AttendPrefill<bf16, 128>);

}  // namespace trireme::gpu
