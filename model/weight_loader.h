#pragma once
/// Loader of weights: reads slices of a checkpoint into device memory, with several threads.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "model/checkpoint/weight_source.h"
#include "runtime/device.h"

namespace trireme {

/// How a piece lies in memory: elements; whole blocks, as the file has them; blocks in tiles (kernels/interleaved.h).
enum class Placing : uint8_t { kElements, kBlocks, kTiles };

/// Rows from row0 and columns from col0 of a checkpoint's tensor, and their destination.
struct WeightPiece {
    std::string name;
    int64_t row0, col0;
    Tensor to;  // of bytes if in blocks; interleaved: all tiles
    Placing placing = Placing::kElements;
    bool as_f16 = false;                 // kBlocks: the values must fit f16
    StoredType type = StoredType::kF32;  // interleaved: its type, the first of its rows in `to`, their number
    int64_t tile_row = 0, tile_rows = 0;

    int64_t rows() const { return placing == Placing::kTiles ? tile_rows : to.rows(); }
    size_t row_bytes() const { return static_cast<size_t>(to.cols()) * size_of(to.dtype()); }
    size_t bytes() const { return static_cast<size_t>(rows()) * row_bytes(); }
};

/// Loads pieces, which are contiguous, and blocks until they are there. `progress` receives the bytes done and the
/// total, on the calling thread. Errors: as WeightSource::read, for the first piece that fails; a failed copy is
/// reported when `stream` is synchronized.
void load_pieces(Device& device, Stream& stream, const WeightSource& source, std::span<const WeightPiece> pieces,
                 const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace trireme
