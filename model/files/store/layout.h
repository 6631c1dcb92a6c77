#pragma once
/// StoreLayout: where HDF5 puts the data sets of a store, and the bytes that it writes around them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/files/store/sets.h"

namespace trireme {

struct StoreLayout {
    struct Piece {
        uint64_t offset = 0;
        std::vector<std::byte> bytes;
    };
    std::vector<uint64_t> offsets;  // positions of the sets' first bytes
    uint64_t file_bytes = 0;
    std::vector<Piece> pieces;  // HDF5's own structures, by offset; between them, and outside of the sets, are zeros
};

/// Lays out a file that begins with a user block of `user_block` bytes (a power of two, above 4,096). HDF5 works in
/// memory, without the bytes of the data sets, whatever their size. Errors: Exit::kInternal from the library, kOs.
StoreLayout lay_out(std::span<const StoreSet> sets, uint64_t user_block);

}  // namespace trireme
