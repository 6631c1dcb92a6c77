#include "runtime/stream.h"

namespace trireme {
namespace {

template <Space D, Space S>
size_t checked_bytes(const BasicTensor<D>& dst, const BasicTensor<S>& src) {
    check(dst.dtype() == src.dtype() && dst.shape().elements() == src.shape().elements(),
          "copy: {} {} does not fit {} {}", name_of(src.dtype()), src.shape(), name_of(dst.dtype()), dst.shape());
    check(dst.contiguous() && src.contiguous(), "copy: strided {} to {}", src.shape(), dst.shape());
    return dst.bytes();
}

}  // namespace

void Stream::copy(const Tensor& dst, const HostTensor& src, const char* what) {
    do_copy(dst.data(), src.data(), checked_bytes(dst, src), what);
}
void Stream::upload(const Tensor& dst, const HostTensor& src, const char* what) {
    do_upload(dst.data(), src.data(), checked_bytes(dst, src), what);
}
void Stream::copy(const HostTensor& dst, const Tensor& src, const char* what) {
    do_copy(dst.data(), src.data(), checked_bytes(dst, src), what);
}
void Stream::copy(const Tensor& dst, const Tensor& src, const char* what) {
    do_copy_on_device(dst.data(), src.data(), checked_bytes(dst, src), what);
}

void Stream::emulate_link(double gbps, double) {
    throw Error(Exit::kConfig, fmt::format("a link of {} GB/s: only the CPU can emulate one", gbps));
}

std::unique_ptr<Graph> Stream::capture(const std::function<void()>&) {
    return nullptr;
}

void Stream::drain() noexcept {
    try {
        synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the stream keeps its error
    }
}

}  // namespace trireme
