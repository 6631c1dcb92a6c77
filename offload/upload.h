#pragma once
/// Upload: fills device tensors with values that the host computes, in pieces, so that a long tensor does not need host
/// memory for all of it. Constructors use it for constant tables.

#include <algorithm>

#include "runtime/buffer.h"
#include "runtime/stream.h"

namespace trireme {

class Upload {
  public:
    Upload(Device& device, Stream& stream) : device_(device), stream_(stream) {}

    /// to[r, c] = at(r, c), where extents after the first are flattened. Does nothing if `to` is empty. Blocks until
    /// the values are on the device.
    template <class T, class At>
    void operator()(const Tensor& to, const At& at) const {
        rows<T>(to, [&](const Matrix<T>& m, int64_t first) {
            for (int64_t r = 0; r < m.rows; ++r) {
                for (int64_t c = 0; c < m.cols; ++c) m(r, c) = at(first + r, c);
            }
        });
    }
    /// Like operator(), but fill(m, first) sets the rows of the matrix m, which are rows first, first + 1, ... of `to`.
    template <class T, class Fill>
    void rows(const Tensor& to, const Fill& fill) const {
        if (!to) return;
        const int64_t some = std::max(int64_t{1}, kPiece / (to.cols() * static_cast<int64_t>(sizeof(T))));
        for (int64_t first = 0; first < to.rows(); first += some) {
            const Tensor part = to.slice_rows(first, std::min(some, to.rows() - first));
            const Buffer<Space::kHost> host(device_, part.bytes());
            const HostTensor values = host.tensor(to.dtype(), part.shape());
            fill(values.as<T>(), first);
            stream_.copy(part, values);
            stream_.synchronize();
        }
    }

  private:
    static constexpr int64_t kPiece = int64_t{1} << 20;  // bytes

    Device& device_;
    Stream& stream_;
};

}  // namespace trireme
