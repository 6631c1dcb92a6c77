#pragma once
/// The tiles of layers that do not live on the device, in pinned host memory.

#include <cstdint>
#include <vector>

#include "kernels/kv.h"
#include "offload/index.h"
#include "runtime/buffer.h"

namespace trireme {

/// A (layer, sequence) is contiguous in tile order. Rows of tiles lie in blocks: one allocation of many tens of GiB
/// fails where no single NUMA node has as much free, and pins for seconds without a sign of life.
class HostStore {
  public:
    static constexpr size_t kBlockBytes = size_t{16} << 30;

    /// A block is at most so large, unless a row alone is larger. Errors: Exit::kOs when the host has no room, or may
    /// not pin that much.
    HostStore(Device& device, size_t tile_bytes, int64_t layers, int64_t sequences, int64_t tiles,
              size_t block_bytes = kBlockBytes);

    /// Tile `tile` of a layer's sequence; the tiles behind it follow.
    char* at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        const int64_t row = layer.i * sequences_ + sequence;
        return static_cast<char*>(blocks_[static_cast<size_t>(row / rows_per_block_)].data()) +
               static_cast<size_t>((row % rows_per_block_) * tiles_ + tile) * tile_bytes_;
    }
    size_t bytes() const { return bytes_; }
    size_t blocks() const { return blocks_.size(); }

  private:
    size_t tile_bytes_;
    int64_t sequences_, tiles_, rows_per_block_ = 1;
    size_t bytes_ = 0;
    std::vector<Buffer<Space::kHost>> blocks_;
};

}  // namespace trireme
