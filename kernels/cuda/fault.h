#pragma once
/// What a kernel's fault means, in words.

#include <string>

#include <fmt/format.h>

#include "kernels/cuda/gpu.h"

namespace trireme::gpu {

/// The first fault of a stream.
struct FaultRecord {
    Fault kind = Fault::kNone;
    int64_t x = 0, y = 0;
};

inline std::string describe(const char* operation, const FaultRecord& fault) {
    const int64_t x = fault.x, y = fault.y;
    switch (fault.kind) {
        case Fault::kNone:
            break;
        case Fault::kEmbedId:
            return fmt::format("{}: id {} is outside the vocabulary of {}", operation, x, y);
        case Fault::kGatherRow:
            return fmt::format("{}: row {} of {} is not there", operation, x, y);
        case Fault::kKeptPosition:
            return fmt::format("{}: row {}, kept at position {}, is not a staged one", operation, x, y);
        case Fault::kRowOrder:
            return fmt::format("{}: a row stands at {} after {} tokens in tiles", operation, x, y);
        case Fault::kAncestor:
            return fmt::format("{}: ancestor {} of row {} is not staged", operation, x, y);
        case Fault::kTile:
            return fmt::format("{}: no tile holds position {} of sequence {}", operation, x, y);
    }
    return fmt::format("{}: no fault", operation);
}

}  // namespace trireme::gpu
