#pragma once
/// TableWriter: writes the tables of tile addresses that attention reads (LayerKv::tiles) to the device.

#include <cstdint>

#include "runtime/buffer.h"

namespace trireme {

class TableWriter {
  public:
    /// For tables i64 [sequences, tiles] of this shape; copies on `stream`, which must outlive the object.
    TableWriter(Device& device, Stream& stream, const Shape& shape)
        : stream_(stream), host_(device, static_cast<size_t>(shape.elements()) * sizeof(int64_t)), shape_(shape) {}

    /// table[s, t] = address_of(s, t), a device address: of tile t of sequence s. Blocks until the table is on the
    /// device.
    template <class AddressOf>
    void write(const Tensor& table, const AddressOf& address_of) {
        const HostTensor host = host_.tensor(DType::kI64, shape_);
        const Matrix<int64_t> addresses = host.as<int64_t>();
        for (int64_t s = 0; s < addresses.rows; ++s) {
            for (int64_t t = 0; t < addresses.cols; ++t) addresses(s, t) = reinterpret_cast<int64_t>(address_of(s, t));
        }
        stream_.copy(table, host);
        stream_.synchronize();
    }

  private:
    Stream& stream_;
    Buffer<Space::kHost> host_;
    Shape shape_;
};

}  // namespace trireme
