#pragma once
/// Reads slices of a checkpoint into device memory, on several threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "model/files/weight_source.h"
#include "runtime/device.h"

namespace trireme {

/// Rows [row0, row0 + to.rows()) and columns [col0, col0 + to.cols()) of a checkpoint's tensor, and where they go.
struct WeightPiece {
    std::string name;
    int64_t row0, col0;
    Tensor to;
};

/// Blocks until the pieces are there; they are contiguous. `progress` gets bytes done and bytes in all, on the calling
/// thread. Errors: as WeightSource::read, of the first piece that has one; a copy's are seen when `stream` is
/// synchronized.
void load_pieces(Device& device, Stream& stream, const WeightSource& source, std::span<const WeightPiece> pieces,
                 const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace trireme
