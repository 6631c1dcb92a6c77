#include "kernels/cuda/expected_weights.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(ExpectedExponents<float>);
TRIREME_KERNEL(ExpectedExponents<f16>);
TRIREME_KERNEL(ExpectedExponents<bf16>);
TRIREME_KERNEL(ExpectedExponents<q8_0>);
TRIREME_KERNEL(ExpectedWeights);

}  // namespace trireme::gpu
