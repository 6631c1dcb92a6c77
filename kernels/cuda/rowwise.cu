#include "kernels/cuda/rowwise.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(Embed<float>);
TRIREME_KERNEL(Embed<f16>);
TRIREME_KERNEL(Embed<bf16>);
TRIREME_KERNEL(Clear);
TRIREME_KERNEL(RmsNorm);
TRIREME_KERNEL(Rope);
TRIREME_KERNEL(Swiglu);
TRIREME_KERNEL(Add);
TRIREME_KERNEL(GatherRows);

}  // namespace trireme::gpu
