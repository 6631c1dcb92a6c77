#include "kernels/cuda/matmul_decode.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

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
