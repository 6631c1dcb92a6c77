#include "dist/cuda/mailbox_sum.h"

#include "runtime/cuda/launch.cuh"

namespace trireme::gpu {

TRIREME_KERNEL(MailboxSum);

}  // namespace trireme::gpu
