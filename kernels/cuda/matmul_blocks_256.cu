#include "kernels/cuda/matmul_blocks.cuh"

namespace trireme::gpu {

TRIREME_KERNELS_OF(kQ2_K);
TRIREME_KERNELS_OF(kQ3_K);
TRIREME_KERNELS_OF(kQ4_K);
TRIREME_KERNELS_OF(kQ5_K);
TRIREME_KERNELS_OF(kQ6_K);
TRIREME_KERNELS_OF(kIQ4_XS);

}  // namespace trireme::gpu
