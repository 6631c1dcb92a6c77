#include "dist/staged_comm.h"

namespace trireme {

Tensor StagedComm::staging(DType dtype, const Shape& shape) {
    return Tensor(memory_.at_least(static_cast<size_t>(shape.elements()) * size_of(dtype)), dtype, shape);
}

void StagedComm::do_all_reduce(Stream& stream, const Tensor& x) {
    const Tensor host = staging(x.dtype(), x.shape());
    const HostTensor same(host.data(), x.dtype(), x.shape());
    stream.copy(same, x);
    inner_.all_reduce(stream, host);
    stream.copy(x, same);
}

void StagedComm::do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) {
    const Tensor host = staging(out.dtype(), out.shape());
    auto* own = static_cast<char*>(host.data()) + static_cast<size_t>(rank()) * part.bytes();
    stream.copy(HostTensor(own, part.dtype(), part.shape()), part);
    inner_.all_gather(stream, host, Tensor(own, part.dtype(), part.shape()));
    stream.copy(out, HostTensor(host.data(), out.dtype(), out.shape()));
}

}  // namespace trireme
