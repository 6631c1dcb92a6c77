#pragma once
/// Reader of rows and columns of a stored matrix: it decodes them, checks them for NaN and converts them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/files/byte_source.h"
#include "runtime/stored_type.h"
#include "runtime/tensor.h"

namespace trireme {

/// A row-major matrix in a file. A vector is a matrix of one row, or of one column if its elements are paired.
struct StoredMatrix {
    const ByteSource* source;
    uint64_t offset;  // position of the first byte in the source
    StoredType type;
    int64_t rows, cols;
    /// 0, or the head dimension of a GGUF query or key matrix: each head's rows are stored as pairs (0, h/2),
    /// (1, h/2 + 1), ... and returned in rotate-half order 0, 1, ...
    int64_t paired_rows = 0;
    int64_t first_row = 0;  // row 0 is this row of the file's tensor, which has further rows
};

/// Returns the index among rows that are stored as pairs (StoredMatrix::paired_rows) of rotate-half row `row`.
/// head_dim 0: rows are not paired.
int64_t paired_row(int64_t row, int64_t head_dim);

/// Fills `out` (f32, f16, bf16) with rows from row0 and columns from col0; any columns, also inside a block of a
/// quantised type. `name` is the tensor's in messages. Errors: as WeightSource::read.
void read_slice(const StoredMatrix& matrix, std::string_view name, int64_t row0, int64_t col0, const HostTensor& out);

/// Fills `out` with blocks of rows [row0, row0 + rows) of a matrix of a quantised type. A row has out.size() / rows
/// bytes of whole blocks; the first one contains column col0. Errors: as WeightSource::read.
void read_block_rows(const StoredMatrix& matrix, std::string_view name, int64_t row0, int64_t rows, int64_t col0,
                     std::span<std::byte> out);

}  // namespace trireme
