#pragma once
/// HostStore: a rank's tiles of streamed layers, in pinned host memory. Transport copies them to the device and back.

#include <cstdint>
#include <vector>

#include "offload/index.h"
#include "offload/stream/stream_shape.h"
#include "runtime/buffer.h"
#include "runtime/index.h"

namespace trireme {

/// A row holds one layer's tiles of one sequence, contiguous and in tile order. The row of sequence 0 also holds the
/// tiles that all sequences share. Rows are grouped into blocks of one pinned allocation each. A single allocation of
/// tens of GiB fails where memory is divided among sockets, and takes seconds during which no progress is reported.
class HostStore {
  public:
    static constexpr size_t kBlockBytes = size_t{16} << 30;

    /// `block_bytes`: the largest block, unless a single row is larger. Errors: Exit::kOs if the host lacks memory, or
    /// may not pin that much.
    HostStore(Device& device, const StreamShape& shape, size_t block_bytes = kBlockBytes);

    /// The address of a sequence's tile; `tile` counts from the sequence's start. The later tiles of its row follow it.
    char* at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        const bool common = tile < shape_.common;
        const int64_t of = common ? 0 : sequence, first = of == 0 ? 0 : shape_.common;
        return rows_[index(layer.i * shape_.sequences + of)] + static_cast<size_t>(tile - first) * shape_.tile_bytes();
    }
    size_t bytes() const { return bytes_; }
    /// The number of pinned allocations.
    size_t blocks() const { return blocks_.size(); }

  private:
    StreamShape shape_;
    size_t bytes_ = 0;
    std::vector<Buffer<Space::kHost>> blocks_;
    std::vector<char*> rows_;  // [layers, sequences]
};

}  // namespace trireme
