#pragma once
/// Loader of weights: reads slices of a checkpoint into device memory, with several threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "model/checkpoint/weight_source.h"
#include "runtime/device.h"

namespace trireme {

/// Rows from row0 and columns from col0 of a checkpoint's tensor, and their destination.
struct WeightPiece {
    std::string name;
    int64_t row0, col0;
    Tensor to;            // of bytes if in blocks
    bool blocks = false;  // whole blocks, as the file has them

    int64_t rows() const { return to.rows(); }
    size_t row_bytes() const { return static_cast<size_t>(to.cols()) * size_of(to.dtype()); }
    size_t bytes() const { return static_cast<size_t>(rows()) * row_bytes(); }
};

/// Loads pieces, which are contiguous, and blocks until they are there. `progress` receives the bytes done and the
/// total, on the calling thread. Errors: as WeightSource::read, for the first piece that fails; a failed copy is
/// reported when `stream` is synchronized.
void load_pieces(Device& device, Stream& stream, const WeightSource& source, std::span<const WeightPiece> pieces,
                 const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace trireme
