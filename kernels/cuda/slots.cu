#include "kernels/cuda/slots.h"

#include "kernels/cuda/slot_choose.h"
#include "kernels/cuda/slot_share.h"
#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(PoolWeights);
TRIREME_KERNEL(SlotStep);
TRIREME_KERNEL(SlotGather);
TRIREME_KERNEL(SlotScores);
TRIREME_KERNEL(SlotDifferences);
TRIREME_KERNEL(SlotKeys);
TRIREME_KERNEL(ShareSlots);
TRIREME_KERNEL(SlotChoose);

}  // namespace trireme::gpu
