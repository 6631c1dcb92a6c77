#include "offload/stream/host_store.h"

#include <algorithm>

namespace trireme {

HostStore::HostStore(Device& device, size_t tile_bytes, int64_t layers, int64_t sequences, int64_t tiles,
                     size_t block_bytes)
    : tile_bytes_(tile_bytes), sequences_(sequences), tiles_(tiles) {
    const int64_t rows = layers * sequences;
    const size_t row_bytes = static_cast<size_t>(tiles) * tile_bytes;
    rows_per_block_ = std::max<int64_t>(1, static_cast<int64_t>(block_bytes / std::max<size_t>(row_bytes, 1)));
    for (int64_t row = 0; row < rows; row += rows_per_block_) {
        blocks_.emplace_back(device, static_cast<size_t>(std::min(rows_per_block_, rows - row)) * row_bytes);
        bytes_ += blocks_.back().bytes();
    }
}

}  // namespace trireme
