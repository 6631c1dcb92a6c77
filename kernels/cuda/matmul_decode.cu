#include "kernels/cuda/matmul_decode.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

static_assert(sizeof(f16) == sizeof(__half) && alignof(f16) == alignof(__half));
static_assert(sizeof(bf16) == sizeof(__nv_bfloat16) && alignof(bf16) == alignof(__nv_bfloat16));

TRIREME_KERNEL(RoundRows<f16>);
TRIREME_KERNEL(RoundRows<bf16>);
TRIREME_KERNEL(MatmulDecode<f16, 1>);
TRIREME_KERNEL(MatmulDecode<f16, 2>);
TRIREME_KERNEL(MatmulDecode<f16, 4>);
TRIREME_KERNEL(MatmulDecode<f16, 8>);
TRIREME_KERNEL(MatmulDecode<bf16, 1>);
TRIREME_KERNEL(MatmulDecode<bf16, 2>);
TRIREME_KERNEL(MatmulDecode<bf16, 4>);
TRIREME_KERNEL(MatmulDecode<bf16, 8>);
TRIREME_KERNEL(MatmulDecodeF32);

}  // namespace trireme::gpu
