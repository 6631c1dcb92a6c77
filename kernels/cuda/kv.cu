#include "kernels/cuda/kv.h"

#include "kernels/cuda/device_gpu.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(KvStage);
TRIREME_KERNEL(KvAppend);
TRIREME_KERNEL(KvKeep);

}  // namespace trireme::gpu
