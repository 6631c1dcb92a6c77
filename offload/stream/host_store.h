#pragma once
/// HostStore: a rank's tiles of streamed layers, in pinned host memory, plain or coded. Transport copies them to the
/// device and back.

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
        return rows_[index(layer.i * shape_.sequences + of)] + static_cast<size_t>(tile - first) * stored_bytes_;
    }
    /// Where a tile that could not be coded is stored, as it is; null: the tile is coded.
    char* plain_at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return plain_.empty() || !plain_[place(layer, sequence, tile)].used ? nullptr
                                                                            : plain_[place(layer, sequence, tile)].at;
    }
    /// Declares that a tile is stored as it is, or coded. Memory for such tiles is allocated as they come: they are
    /// rare, and in the worst case all are. Errors: Exit::kOs if the host lacks memory.
    void set_plain(StreamedIndex layer, int64_t sequence, int64_t tile, bool plain);
    size_t bytes() const { return bytes_; }
    /// The number of tiles that are stored as they are.
    int64_t plain_tiles() const { return plain_tiles_; }
    /// The number of pinned allocations.
    size_t blocks() const { return blocks_.size(); }

  private:
    struct Plain {
        char* at = nullptr;  // kept when the tile is coded again
        bool used = false;
    };
    size_t place(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return static_cast<size_t>(layer.i * shape_.all_tiles() + shape_.place(sequence, tile));
    }

    Device& device_;
    StreamShape shape_;
    size_t stored_bytes_, bytes_ = 0;
    std::vector<Buffer<Space::kHost>> blocks_;
    std::vector<char*> rows_;   // [layers, sequences]
    std::vector<Plain> plain_;  // [layers, all_tiles()]; empty: no tile is coded
    std::vector<Buffer<Space::kHost>> plain_blocks_;
    int64_t plain_tiles_ = 0, plain_left_ = 0;  // places left in the last block
};

}  // namespace trireme
