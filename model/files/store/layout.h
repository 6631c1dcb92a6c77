#pragma once
/// StoreLayout: where HDF5 puts the data sets of a store, and the bytes that it writes around them. StoreWriter writes
/// the file itself, in this layout.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/files/store/sets.h"

namespace trireme {

struct StoreLayout {
    struct Piece {
        uint64_t offset = 0;  // from the start of the file
        std::vector<std::byte> bytes;
    };
    std::vector<uint64_t> offsets;  // [sets] each set's first byte, from the start of the file; 0 for a set of 0 bytes
    uint64_t file_bytes = 0;        // size of the file
    std::vector<Piece> pieces;      // pages with HDF5's own structures, by offset; other bytes outside sets are zeros
};

/// Lays out a file that begins with a user block of `user_block` bytes (a power of two, above 4,096). HDF5 works in
/// memory, without the bytes of the data sets, whatever their size. Errors: Exit::kInternal from the library, kOs.
StoreLayout lay_out(std::span<const StoreSet> sets, uint64_t user_block);

}  // namespace trireme
