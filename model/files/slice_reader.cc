#include "model/files/slice_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/files/dequantise.h"
#include "model/files/tensor_values.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;  // read from the file at a time

class SliceReader {
  public:
    SliceReader(const StoredMatrix& m, std::string_view name, int64_t row0, int64_t col0, int64_t rows, int64_t cols,
                DType to)
        : m_(m), name_(name), row0_(row0), col0_(col0), rows_(rows), cols_(cols), to_(to), layout_(layout_of(m.type)) {
        first_block_ = col0 / layout_.elements;
        blocks_ = (col0 + cols + layout_.elements - 1) / layout_.elements - first_block_;
        row_blocks_ = m.cols / layout_.elements;
    }

    /// `out`: the first row; `stride` in bytes.
    void read(std::byte* out, size_t stride) {
        const bool plain = !is_quantised(m_.type);
        if (plain && plain_dtype(m_.type) == to_ && whole_rows() && m_.paired_rows == 0 &&
            stride == static_cast<size_t>(cols_) * size_of(to_)) {
            m_.source->read(at(row0_), std::span(out, static_cast<size_t>(rows_) * stride));
            scan(to_, out, rows_ * cols_, row0_ * m_.cols);
        } else {
            for (int64_t r = 0; r < rows_;) {
                const Span span = next_rows(row0_ + r);
                fetch(span);
                for (int64_t i = 0; i < span.rows; ++i, ++r) {
                    const int64_t row = row0_ + r;
                    decode(
                        row,
                        span_.data() + static_cast<size_t>(paired_row(row, m_.paired_rows) - span.stored) * run_bytes(),
                        out + static_cast<size_t>(r) * stride);
                }
            }
        }
        m_.source->check_unchanged();
    }

    /// The rows' blocks as they are.
    void read_blocks(std::byte* out) {
        if (whole_rows() && m_.paired_rows == 0) {
            m_.source->read(at(row0_), std::span(out, static_cast<size_t>(rows_) * run_bytes()));
        } else {
            for (int64_t r = 0; r < rows_;) {
                const Span span = next_rows(row0_ + r);
                fetch(span);
                for (int64_t i = 0; i < span.rows; ++i, ++r) {
                    const int64_t stored = paired_row(row0_ + r, m_.paired_rows) - span.stored;
                    std::memcpy(out + static_cast<size_t>(r) * run_bytes(),
                                span_.data() + static_cast<size_t>(stored) * run_bytes(), run_bytes());
                }
            }
        }
        for (int64_t r = 0; r < rows_; ++r) {
            const std::byte* run = out + static_cast<size_t>(r) * run_bytes();
            check_finite_blocks(whose(), m_.type, run, blocks_ * layout_.elements,
                                (row0_ + r) * m_.cols + first_block_ * layout_.elements);
        }
        m_.source->check_unchanged();
    }

  private:
    /// `rows` requested rows, which are among `stored_rows` rows of the file from `stored` on.
    struct Span {
        int64_t rows, stored, stored_rows;
    };

    bool whole_rows() const { return blocks_ == row_blocks_; }
    size_t run_bytes() const { return static_cast<size_t>(blocks_) * layout_.bytes; }
    uint64_t at(int64_t stored) const {  // sizes were checked against the file when it was opened
        return m_.offset + static_cast<uint64_t>((m_.first_row + stored) * row_blocks_ + first_block_) * layout_.bytes;
    }

    Span next_rows(int64_t row) const {
        const int64_t left = row0_ + rows_ - row;
        if (m_.paired_rows == 0) {
            const auto fit = static_cast<int64_t>(kReadBytes / std::max<size_t>(run_bytes(), 1));
            const int64_t n = whole_rows() ? std::clamp<int64_t>(fit, 1, left) : 1;
            return {n, row, n};
        }
        // Up to the end of the head: its rows are contiguous in the file, in another order.
        const int64_t n = whole_rows() ? std::min(left, m_.paired_rows - row % m_.paired_rows) : 1;
        int64_t low = paired_row(row, m_.paired_rows), high = low;
        for (int64_t i = 1; i < n; ++i) {
            const int64_t s = paired_row(row + i, m_.paired_rows);
            low = std::min(low, s);
            high = std::max(high, s);
        }
        return {n, low, high - low + 1};
    }

    void fetch(const Span& span) {
        span_.resize(static_cast<size_t>(span.stored_rows) * run_bytes());
        m_.source->read(at(span.stored), span_);
    }

    void decode(int64_t row, const std::byte* run, std::byte* out) {
        const int64_t skip = col0_ - first_block_ * layout_.elements, index = row * m_.cols + col0_;
        if (!is_quantised(m_.type)) {
            const DType from = plain_dtype(m_.type);
            scan(from, run, cols_, index);
            convert_finite(whose(), from, run, to_, out, cols_, index);
        } else {
            values_.resize(static_cast<size_t>(blocks_ * layout_.elements));
            dequantise(m_.type, run, blocks_ * layout_.elements, values_.data());
            scan(DType::kF32, values_.data() + skip, cols_, index);
            convert_finite(whose(), DType::kF32, values_.data() + skip, to_, out, cols_, index);
        }
    }

    void scan(DType type, const void* values, int64_t n, int64_t index) const {
        check_finite(whose(), type, values, n, index);
    }
    ValuesOf whose() const { return {m_.source->name(), name_}; }

    const StoredMatrix& m_;
    std::string_view name_;
    int64_t row0_, col0_, rows_, cols_;
    DType to_;
    BlockLayout layout_;
    int64_t first_block_, blocks_, row_blocks_;
    std::vector<std::byte> span_;
    std::vector<float> values_;
};

}  // namespace

int64_t paired_row(int64_t row, int64_t head_dim) {
    if (head_dim == 0) return row;
    const int64_t head = row / head_dim, r = row % head_dim, half = head_dim / 2;
    return head * head_dim + 2 * (r % half) + r / half;
}

void read_slice(const StoredMatrix& m, std::string_view name, int64_t row0, int64_t col0, const HostTensor& out) {
    // A vector is one row, so that its elements are columns, or one column.
    const bool vector = out.shape().rank() == 1, row = vector && m.cols != 1;
    const int64_t rows = row ? 1 : out.rows(), cols = row ? out.rows() : vector ? 1 : out.cols();
    if (row) std::swap(row0, col0);
    check(row0 >= 0 && col0 >= 0 && row0 + rows <= m.rows && col0 + cols <= m.cols,
          "tensor '{}' of {} x {}: rows [{}, {}) and columns [{}, {}) do not exist", name, m.rows, m.cols, row0,
          row0 + rows, col0, col0 + cols);
    check(!vector || out.contiguous(), "tensor '{}': a vector is read into contiguous memory", name);
    if (rows == 0 || cols == 0) return;
    const auto stride = static_cast<size_t>(vector ? cols : out.stride()) * size_of(out.dtype());
    SliceReader(m, name, row0, col0, rows, cols, out.dtype()).read(static_cast<std::byte*>(out.data()), stride);
}

void read_block_rows(const StoredMatrix& m, std::string_view name, int64_t row0, int64_t rows, int64_t col0,
                     std::span<std::byte> out) {
    const BlockLayout layout = layout_of(m.type);
    if (rows == 0) return;
    const int64_t blocks = static_cast<int64_t>(out.size() / static_cast<size_t>(rows) / layout.bytes);
    const int64_t first = col0 / layout.elements * layout.elements, cols = blocks * layout.elements;
    check(is_quantised(m.type) && out.size() == static_cast<size_t>(rows * blocks) * layout.bytes && row0 >= 0 &&
              row0 + rows <= m.rows && first >= 0 && first + cols <= m.cols,
          "tensor '{}' of {} x {}: {} bytes for blocks of rows [{}, {}) from column {}", name, m.rows, m.cols,
          out.size(), row0, row0 + rows, col0);
    if (blocks == 0) return;
    SliceReader(m, name, row0, first, rows, cols, DType::kF32).read_blocks(out.data());
}

}  // namespace trireme
