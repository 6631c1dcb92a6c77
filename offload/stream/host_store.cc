#include "offload/stream/host_store.h"

#include <algorithm>

#include "runtime/log.h"

namespace trireme {

HostStore::HostStore(Device& device, const StreamShape& shape, size_t block_bytes)
    : device_(device),
      shape_(shape),
      stored_bytes_(shape.stored_bytes()),
      plain_(shape.coded ? static_cast<size_t>(shape.layers * shape.all_tiles()) : 0) {
    const auto row_bytes = [&](int64_t row) {
        const bool first = row % shape.sequences == 0;
        return static_cast<size_t>(shape.tiles - (first ? 0 : shape.common)) * stored_bytes_;
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

void HostStore::set_plain(StreamedIndex layer, int64_t sequence, int64_t tile, bool plain) {
    Plain& p = plain_[place(layer, sequence, tile)];
    if (plain && p.at == nullptr) {
        constexpr size_t kBlock = size_t{16} << 20;
        if (plain_left_ == 0) {
            const size_t tiles = std::max(size_t{1}, kBlock / shape_.tile_bytes());
            plain_blocks_.emplace_back(device_, tiles * shape_.tile_bytes());
            bytes_ += plain_blocks_.back().bytes();
            plain_left_ = static_cast<int64_t>(tiles);
            if (plain_blocks_.size() == 2) {
                log::warn(
                    "{} of {} streamed tiles could not be coded and take more host memory than planned; if most "
                    "cannot, "
                    "--kv-wire raw needs less",
                    plain_tiles_, shape_.layers * shape_.all_tiles());
            }
        }
        p.at =
            static_cast<char*>(plain_blocks_.back().data()) + static_cast<size_t>(--plain_left_) * shape_.tile_bytes();
    }
    plain_tiles_ += static_cast<int64_t>(plain) - static_cast<int64_t>(p.used);
    p.used = plain;
}

}  // namespace trireme
