#pragma once
/// StoreSet: name, type and shape of a data set of a store. A store is an HDF5 file of data sets that are written once
/// and contiguously, for this program to read again: snapshots, weights, token ids, records of runs. Any HDF5 program
/// can also read it.
///
/// The file begins with a user block, which HDF5 ignores: "TRIREME1", the length of a JSON text as u64, little endian,
/// the XXH3 of that text as u64, the text, zeros. The text gives the position of each data set, which is contiguous and
/// row-major. It also gives two digests: of all bytes after the user block that are in no data set (HDF5's structures),
/// and of the last data set, "digests". That set has one XXH3 for each block of each other data set. So a reader needs
/// none of HDF5's own structures, and detects every damaged byte.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dtype.h"

namespace trireme {

/// A data set: f32, f16, bf16, i32, i64 or u8, with 1 to 4 extents, row-major. bf16 is stored as u16. '/' in a name
/// separates HDF5 groups.
struct StoreSet {
    std::string name;
    DType type = DType::kU8;
    std::vector<int64_t> shape;

    int64_t rows() const { return shape.front(); }  // the first extent
    uint64_t row_bytes() const {
        uint64_t bytes = size_of(type);
        for (size_t i = 1; i < shape.size(); ++i) bytes *= static_cast<uint64_t>(shape[i]);
        return bytes;
    }
    uint64_t bytes() const { return row_bytes() * static_cast<uint64_t>(rows()); }
    /// Returns the number of rows of a block, which has one digest: about a megabyte, at least one row.
    int64_t block_rows() const {
        const uint64_t row = row_bytes();
        return row == 0 ? 1 : static_cast<int64_t>(std::max<uint64_t>(1, kBlockBytes / row));
    }
    int64_t blocks() const { return (rows() + block_rows() - 1) / block_rows(); }

    static constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
};

/// The first bytes of a store.
constexpr std::string_view kStoreMagic = "TRIREME1";
/// Names of the data sets that every store has: a JSON text about the content, and the digests of blocks.
constexpr const char *kStoreAbout = "about", *kStoreDigests = "digests";

}  // namespace trireme
