#include "offload/stream/host_store.h"

#include <algorithm>

namespace trireme {

HostStore::HostStore(Device& device, const StreamShape& shape, size_t block_bytes) : shape_(shape) {
    const auto row_bytes = [&](int64_t row) {
        const bool first = row % shape.sequences == 0;
        return static_cast<size_t>(shape.tiles - (first ? 0 : shape.common)) * shape.tile_bytes();
    };
    const int64_t rows = shape.layers * shape.sequences;
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
        size_t bytes = row_bytes(end++);
        while (end < rows && bytes + row_bytes(end) <= block_bytes) bytes += row_bytes(end++);
        blocks_.emplace_back(device, bytes);
        bytes_ += blocks_.back().bytes();
        auto* next = static_cast<char*>(blocks_.back().data());
        for (int64_t row = begin; row < end; next += row_bytes(row++)) rows_.push_back(next);
    }
}

}  // namespace trireme
