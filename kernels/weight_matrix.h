#pragma once
/// WeightMatrix: a matrix [rows, cols] of weights in device memory: plain elements, or blocks as files have them
/// (runtime/stored_type.h).

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "kernels/interleaved.h"
#include "runtime/stored_type.h"
#include "runtime/tensor.h"

namespace trireme {

/// The type of activations in products of weights in blocks. f32: activations and weights are exact. f16 (GPUs) and
/// bf16 (CPUs): activations are rounded, and weights too; with dot products of bf16 pairs (bf16_dots()), weights of a
/// decode product are not. q16 and q8 (CPUs with byte_dots.h): activations are whole numbers of 16 or 8 bits times a
/// scale for 32 of them, weights are exact. With q16 and q8, FP8 weights and more than 64 rows of a prefill compute as
/// bf16 does if there are dot products of bf16 pairs, else as f32.
enum class ActivationType : uint8_t { kF32, kF16, kBF16, kQ16, kQ8 };
inline constexpr std::array kActivationTypes = {ActivationType::kF32, ActivationType::kF16, ActivationType::kBF16,
                                                ActivationType::kQ16, ActivationType::kQ8};

constexpr std::string_view name_of(ActivationType a) {
    constexpr std::string_view names[] = {"f32", "f16", "bf16", "q16", "q8"};
    return names[index(a)];
}
/// Whether weights in blocks are interleaved for these products (kernels/interleaved.h).
constexpr bool interleaves(ActivationType a) {
    return a == ActivationType::kQ16 || a == ActivationType::kQ8;
}

/// Rows of one type, blocks or plain elements. Rows follow each other; each is whole blocks.
struct WeightRows {
    StoredType type = StoredType::kF32;
    void* data = nullptr;
    int64_t rows = 0;
    int64_t stride = 0;        // bytes of a row
    bool interleaved = false;  // data has tiles of kInterleaved rows
    int64_t first = 0;         // interleaved: the tile's row that is row 0, below kInterleaved
};

class WeightMatrix {
  public:
    static constexpr size_t kMostParts = 3;  // q, k and v of a layer may have three types

    WeightMatrix() = default;
    /// Plain elements: f32, f16 or bf16.
    WeightMatrix(const Tensor& plain)  // NOLINT(google-explicit-constructor): most matrices are plain
        : cols_(plain ? plain.cols() : 0), plain_(plain) {}
    /// Rows of several types, of which some are blocks; rows are added later. `skip`: elements of a row's first block
    /// before column 0 (another rank's). `as`: how blocks are multiplied.
    WeightMatrix(int64_t cols, int64_t skip, ActivationType as) : cols_(cols), skip_(skip), as_(as), blocks_(true) {
        check(cols >= 0 && skip >= 0, "weights: {} columns after {} others", cols, skip);
    }
    /// Rows that continue the last part become rows of it.
    void add(const WeightRows& rows) {
        check(rows.first == 0 || parts_ == 0, "weights: rows from row {} of a tile as part {}", rows.first, parts_);
        check(blocks_ && (skip_ == 0 || is_quantised(rows.type)), "weights: {} rows of {} after {} columns", rows.rows,
              name_of(rows.type), skip_);
        if (parts_ > 0) {
            WeightRows& last = all_[parts_ - 1];
            const bool whole = !rows.interleaved || (last.first + last.rows) % kInterleaved == 0;
            const auto* end = static_cast<char*>(last.data) + (last.first + last.rows) * last.stride;
            if (last.type == rows.type && last.interleaved == rows.interleaved && whole && rows.first == 0 &&
                end == rows.data) {
                last.rows += rows.rows;
                return;
            }
        }
        check(parts_ < kMostParts, "weights: {} rows of {} as part {}", rows.rows, name_of(rows.type), parts_);
        all_[parts_++] = rows;
    }

    bool blocks() const { return blocks_; }
    const Tensor& plain() const { return plain_; }
    std::span<const WeightRows> parts() const { return std::span(all_).first(parts_); }
    int64_t rows() const {
        int64_t n = plain_ ? plain_.rows() : 0;
        for (const WeightRows& part : parts()) n += part.rows;
        return n;
    }
    int64_t cols() const { return cols_; }
    int64_t skip() const { return skip_; }
    ActivationType as() const { return as_; }
    size_t bytes() const {
        size_t n = plain_ ? plain_.bytes() : 0;
        for (const WeightRows& part : parts()) n += static_cast<size_t>(part.rows * part.stride);
        return n;
    }
    /// A part of plain elements, as a tensor.
    Tensor plain(const WeightRows& part) const { return {part.data, plain_dtype(part.type), {part.rows, cols_}}; }
    /// Elements of a row's whole blocks, of this type.
    int64_t stored_cols(StoredType type) const {
        const int64_t block = layout_of(type).elements;
        return (skip_ + cols_ + block - 1) / block * block;
    }

    WeightMatrix first_rows(int64_t n) const { return slice_rows(0, n); }
    /// Returns rows [begin, begin + n).
    WeightMatrix slice_rows(int64_t begin, int64_t n) const {
        if (!blocks_) return plain_.slice_rows(begin, n);
        check(begin >= 0 && n >= 0 && begin + n <= rows(), "weights: rows [{}, {}) of {}", begin, begin + n, rows());
        WeightMatrix slice(cols_, skip_, as_);
        for (const WeightRows& part : parts()) {
            const int64_t first = std::min(begin, part.rows), some = std::min(n, part.rows - first);
            if (some > 0) {
                const int64_t in_data = part.first + first, rest = part.interleaved ? in_data % kInterleaved : 0;
                slice.add({part.type, static_cast<char*>(part.data) + (in_data - rest) * part.stride, some, part.stride,
                           part.interleaved, rest});
            }
            begin -= first;
            n -= some;
        }
        return slice;
    }

  private:
    int64_t cols_ = 0, skip_ = 0;
    ActivationType as_ = ActivationType::kF32;
    Tensor plain_;
    std::array<WeightRows, kMostParts> all_;
    size_t parts_ = 0;
    bool blocks_ = false;
};

}  // namespace trireme
