#pragma once
/// Where HDF5 puts the data sets of a store, and what it writes around them.

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
    std::vector<uint64_t> offsets;  // of the sets' first bytes
    uint64_t file_bytes = 0;
    std::vector<Piece> pieces;  // HDF5's own structures, by offset; between them, and outside of the sets, are zeros
};

/// Of a file that begins with a user block of so many bytes (a power of two, above 4,096). HDF5 works in memory: it
/// lays out data sets of any size without their bytes. Errors: Exit::kInternal from the library, kOs.
StoreLayout lay_out(std::span<const StoreSet> sets, uint64_t user_block);

}  // namespace trireme
