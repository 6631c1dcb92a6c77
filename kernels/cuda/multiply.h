#pragma once
/// Multiply: matrix products with many rows (prefill), by cuBLASLt. Decode has kernels of its own.

#include <map>
#include <memory>

#include <cublasLt.h>

#include "runtime/buffer.h"
#include "runtime/cuda/stream.h"

namespace trireme::gpu {

class Multiply {
  public:
    /// Errors: Exit::kUnavailable when cuBLASLt does not start.
    explicit Multiply(Device& device);
    ~Multiply();
    Multiply(const Multiply&) = delete;
    Multiply& operator=(const Multiply&) = delete;

    /// out = x w^T with sums in f32.  out f32 [rows, n] and x [rows, k] of w's type may have row strides; w f32, f16 or
    /// bf16 [n, k] is contiguous. `name`, `bytes`: for traces (CudaStream::run). Errors: Exit::kUnavailable.
    /// The algorithm depends on shapes, types, strides, alignment and GPU alone; f32 is multiplied as f32, never as
    /// TF32.
    void operator()(CudaStream& stream, const char* name, size_t bytes, const Tensor& out, const Tensor& x,
                    const Tensor& w);

  private:
    struct Plan;
    /// What a plan depends on.
    struct Key {
        int64_t rows, n, k, x_stride, out_stride;
        DType type;
        uint32_t w_alignment, x_alignment, out_alignment;  // in bytes
        auto operator<=>(const Key&) const = default;
    };
    Plan& plan(const Key& key);

    cublasLtHandle_t handle_ = nullptr;
    Buffer<Space::kDevice> workspace_;
    std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme::gpu
