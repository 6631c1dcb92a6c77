#include "kernels/cuda/matmul_blocks.cuh"

namespace trireme::gpu {

TRIREME_KERNELS_OF(kQ4_0);
TRIREME_KERNELS_OF(kQ4_1);
TRIREME_KERNELS_OF(kQ5_0);
TRIREME_KERNELS_OF(kQ5_1);
TRIREME_KERNELS_OF(kQ8_0);
TRIREME_KERNELS_OF(kIQ4_NL);
TRIREME_KERNELS_OF(kMXFP4);

}  // namespace trireme::gpu
