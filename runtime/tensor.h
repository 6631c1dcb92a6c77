#pragma once
/// Tensor, HostTensor: non-owning views of memory with an element type and a shape. The memory space is part of the C++
/// type, so passing host memory to a kernel does not compile.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include <fmt/format.h>

#include "runtime/dtype.h"
#include "runtime/error.h"

namespace trireme {

enum class Space { kDevice, kHost };

/// Up to 4 extents of a tensor, outermost first, in elements. An extent may be 0.
class Shape {
  public:
    static constexpr int kMaxRank = 4;

    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) {
        check(dims.size() <= kMaxRank, "shape: {} dimensions, at most {} are supported", dims.size(), kMaxRank);
        for (int64_t d : dims) {
            check(d >= 0, "shape: negative extent {}", d);
            dims_[static_cast<size_t>(rank_++)] = d;
        }
    }
    int rank() const { return rank_; }
    int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
    int64_t elements() const {
        int64_t n = 1;
        for (int i = 0; i < rank_; ++i) n *= (*this)[i];
        return n;
    }
    bool operator==(const Shape&) const = default;
    std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  private:
    std::array<int64_t, kMaxRank> dims_{};
    int rank_ = 0;
};

}  // namespace trireme

/// Formats a shape as "[2, 3]". Checks take shapes, not strings, since arguments are evaluated even if it holds. Not
/// inline: fmt::format_to would put all of fmt into every object file that sees it, 5 s of compile time each.
template <>
struct fmt::formatter<trireme::Shape> {
    constexpr auto parse(format_parse_context& context) { return context.begin(); }
    format_context::iterator format(const trireme::Shape& shape, format_context& context) const;
};

namespace trireme {

/// Rows x columns of T; consecutive rows are `stride` elements apart.
template <class T>
struct Matrix {
    T* data;
    int64_t rows, cols, stride;

    T* row(int64_t r) const { return data + r * stride; }
    T& operator()(int64_t r, int64_t c) const { return data[r * stride + c]; }
};

/// A non-owning view: pointer, type, shape, and a stride between rows (the first extent). Each row is contiguous.
template <Space S>
class BasicTensor {
  public:
    BasicTensor() = default;
    BasicTensor(void* data, DType dtype, Shape shape) : BasicTensor(data, dtype, shape, row_elements(shape)) {}
    BasicTensor(void* data, DType dtype, Shape shape, int64_t stride)
        : data_(data), dtype_(dtype), shape_(shape), stride_(stride) {
        check(stride >= row_elements(shape), "tensor {}: a row stride of {} is shorter than a row", shape, stride);
    }

    void* data() const { return data_; }
    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    int64_t dim(int i) const { return shape_[i]; }
    int64_t rows() const { return shape_.rank() == 0 ? 0 : shape_[0]; }
    int64_t cols() const { return row_elements(shape_); }  // elements of a row: the product of the other extents
    int64_t stride() const { return stride_; }             // elements from one row to the next
    bool contiguous() const { return stride_ == cols() || rows() <= 1; }
    size_t bytes() const { return static_cast<size_t>(shape_.elements()) * size_of(dtype_); }  // without gaps
    explicit operator bool() const { return data_ != nullptr; }

    /// Returns the first n rows. Activation buffers are allocated for the most rows and used with fewer.
    BasicTensor first_rows(int64_t n) const { return slice_rows(0, n); }
    /// Returns rows [begin, begin + n).
    BasicTensor slice_rows(int64_t begin, int64_t n) const {
        check(begin >= 0 && n >= 0 && begin + n <= rows(), "tensor {}: rows [{}, {}) do not exist", shape_, begin,
              begin + n);
        Shape s = shape_;
        s = with_rows(s, n);
        return BasicTensor(at(begin, 0), dtype_, s, stride_);
    }
    /// Returns columns [begin, begin + n) of a matrix, strided.
    BasicTensor slice_cols(int64_t begin, int64_t n) const {
        check(shape_.rank() == 2 && begin >= 0 && n >= 0 && begin + n <= cols(),
              "tensor {}: columns [{}, {}) do not exist", shape_, begin, begin + n);
        return BasicTensor(at(0, begin), dtype_, Shape{rows(), n}, stride_);
    }
    /// Returns the rows as a Matrix of T, which must be the element type; extents after the first are flattened.
    template <class T>
    Matrix<T> as() const {
        check(dtype_of<std::remove_const_t<T>> == dtype_, "tensor {}: holds {}, read as {}", shape_, name_of(dtype_),
              name_of(dtype_of<std::remove_const_t<T>>));
        return {static_cast<T*>(data_), rows(), cols(), stride_};
    }

  private:
    static int64_t row_elements(const Shape& s) {
        int64_t n = 1;
        for (int i = 1; i < s.rank(); ++i) n *= s[i];
        return n;
    }
    static Shape with_rows(const Shape& s, int64_t n) {
        switch (s.rank()) {
            case 1:
                return Shape{n};
            case 2:
                return Shape{n, s[1]};
            case 3:
                return Shape{n, s[1], s[2]};
            default:
                return Shape{n, s[1], s[2], s[3]};
        }
    }
    void* at(int64_t row, int64_t col) const {
        return static_cast<char*>(data_) + static_cast<size_t>(row * stride_ + col) * size_of(dtype_);
    }

    void* data_ = nullptr;
    DType dtype_ = DType::kF32;
    Shape shape_;
    int64_t stride_ = 0;
};

/// A tensor in device memory, on which kernels work. The CPU has device memory as well, so that offloading moves bytes.
using Tensor = BasicTensor<Space::kDevice>;
/// A tensor in host memory, pinned if the device can use that.
using HostTensor = BasicTensor<Space::kHost>;

}  // namespace trireme
