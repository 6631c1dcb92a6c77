#pragma once
/// Tensors of type u8 over raw memory: the form in which tiles are copied.

#include "runtime/tensor.h"

namespace trireme {

inline Tensor bytes_on_device(const char* at, size_t bytes) {
    return Tensor(const_cast<char*>(at), DType::kU8, Shape{static_cast<int64_t>(bytes)});
}
inline HostTensor bytes_on_host(void* at, size_t bytes) {
    return HostTensor(at, DType::kU8, Shape{static_cast<int64_t>(bytes)});
}

}  // namespace trireme
