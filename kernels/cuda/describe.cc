#include "kernels/cuda/describe.h"

#include <fmt/format.h>

#include "kernels/sampling.h"

namespace trireme::gpu {
namespace {

std::string text_of(const char* operation, const FaultRecord& fault) {
    const int64_t x = fault.x, y = fault.y;
    switch (fault.kind) {
        case Fault::kNone:
            break;
        case Fault::kEmbedId:
            return fmt::format("{}: id {} is outside the vocabulary of {}", operation, x, y);
        case Fault::kGatherRow:
            return fmt::format("{}: row {} of {} is not there", operation, x, y);
        case Fault::kKeptSlot:
            return fmt::format("{}: row {}, kept at slot {}, is not a staged one", operation, x, y);
        case Fault::kRowOrder:
            return fmt::format("{}: a row stands at {} after {} cached slots", operation, x, y);
        case Fault::kAncestor:
            return fmt::format("{}: ancestor {} of row {} is not staged", operation, x, y);
        case Fault::kLogits:
            return kNoDistribution;
        case Fault::kPick:
            return fmt::format("{}: {} chunks to pick of {} candidates", operation, x, y);
        case Fault::kBegin:
            return fmt::format("{}: a row stands at {}, its head begins at slot {}", operation, x, y);
        case Fault::kPosition:
            return fmt::format("{}: a key stands at {}, there are angles for {}", operation, x, y);
        case Fault::kSlots:
            return fmt::format("{}: a head has {} tokens where {} may be", operation, x, y);
        case Fault::kRank:
            return fmt::format("{}: a slot has rank {} of {}", operation, x, y);
        case Fault::kRecent:
            return fmt::format("{}: {} recent tokens of {} leave none to evict", operation, x, y);
        case Fault::kTile:
            return fmt::format("{}: no tile holds slot {} of sequence {}", operation, x, y);
    }
    return fmt::format("{}: no fault", operation);
}

}  // namespace

Error describe(const char* operation, const FaultRecord& fault) {
    return Error(fault.kind == Fault::kLogits ? Exit::kData : Exit::kInternal, text_of(operation, fault));
}

}  // namespace trireme::gpu
