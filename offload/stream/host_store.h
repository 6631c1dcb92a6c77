#pragma once
/// The tiles of streamed layers, in pinned host memory.

#include <cstdint>
#include <vector>

#include "kernels/kv.h"
#include "offload/index.h"
#include "runtime/buffer.h"

namespace trireme {

/// The tiles of a (layer, sequence) are contiguous, in tile order: a row. Rows are grouped into blocks of one pinned
/// allocation each: a single allocation of tens of GiB fails where memory is divided among sockets, and takes seconds
/// during which no progress is reported.
class HostStore {
  public:
    static constexpr size_t kBlockBytes = size_t{16} << 30;

    /// `tiles`: of each sequence. `block_bytes`: the largest block, unless a single row is larger. Errors: Exit::kOs if
    /// the host lacks memory, or may not pin that much.
    HostStore(Device& device, size_t tile_bytes, int64_t layers, int64_t sequences, int64_t tiles,
              size_t block_bytes = kBlockBytes);

    /// The address of tile `tile` of a layer's sequence; the tiles after it are contiguous.
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
