#pragma once
/// Memory as u8 tensors, for copies.

#include "runtime/tensor.h"

namespace trireme {

inline Tensor bytes_on_device(const char* at, size_t bytes) {
    return Tensor(const_cast<char*>(at), DType::kU8, Shape{static_cast<int64_t>(bytes)});
}
inline HostTensor bytes_on_host(void* at, size_t bytes) {
    return HostTensor(at, DType::kU8, Shape{static_cast<int64_t>(bytes)});
}

}  // namespace trireme
