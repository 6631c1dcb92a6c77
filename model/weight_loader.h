#pragma once
/// Loader of weights: reads slices of a checkpoint into device memory, with several threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "model/checkpoint/weight_source.h"
#include "runtime/device.h"

namespace trireme {

/// Rows [row0, row0 + to.rows()) and columns [col0, col0 + to.cols()) of a checkpoint's tensor, and their destination.
struct WeightPiece {
    std::string name;
    int64_t row0, col0;
    Tensor to;
};

/// Loads pieces, which are contiguous, and blocks until they are there. `progress` receives the bytes done and the
/// total, on the calling thread. Errors: as WeightSource::read, for the first piece that fails; a failed copy is
/// reported when `stream` is synchronized.
void load_pieces(Device& device, Stream& stream, const WeightSource& source, std::span<const WeightPiece> pieces,
                 const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace trireme
