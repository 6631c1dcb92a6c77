#include "kernels/cuda/kv.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(KvStage);
TRIREME_KERNEL(KvAppend);
TRIREME_KERNEL(KvKeep);

}  // namespace trireme::gpu
