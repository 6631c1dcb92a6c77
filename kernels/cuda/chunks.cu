#include "kernels/cuda/chunks.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(ChunkMeans);
TRIREME_KERNEL(ScoreChunks<float>);
TRIREME_KERNEL(ScoreChunks<f16>);
TRIREME_KERNEL(ScoreChunks<bf16>);
TRIREME_KERNEL(PlaceChunks);
TRIREME_KERNEL(GatherChunks);

}  // namespace trireme::gpu
