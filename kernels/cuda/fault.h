#pragma once
/// Fault: what a kernel may find wrong in its operands' contents.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

enum class Fault : int32_t {
    kNone,
    kEmbedId,
    kGatherRow,
    kKeptSlot,
    kRowOrder,
    kAncestor,
    kTile,
    kLogits,
    kPick,
    kBegin,
    kPosition,
    kSlots,
    kRank,
    kRecent
};

}  // namespace trireme::gpu
