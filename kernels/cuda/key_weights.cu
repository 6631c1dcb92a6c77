#include "kernels/cuda/key_weights.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(KeyWeights<float>);
TRIREME_KERNEL(KeyWeights<f16>);
TRIREME_KERNEL(KeyWeights<bf16>);
TRIREME_KERNEL(KeyWeights<q8_0>);

}  // namespace trireme::gpu
