#include "kernels/cuda/tile_code.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(ChooseBases);
TRIREME_KERNEL(WriteCodes);
TRIREME_KERNEL(DecodeTiles);

}  // namespace trireme::gpu
