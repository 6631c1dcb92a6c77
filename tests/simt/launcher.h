#pragma once
/// Runs GPU kernels on a CPU stream: what kernels/cuda/gpu_kernels.h calls a Launcher.

#include <memory>

#include "kernels/cuda/describe.h"
#include "kernels/cuda/gpu_kernels.h"
#include "runtime/cpu/stream.h"
#include "tests/simt/block.h"

namespace trireme::simt {

class Launcher {
  public:
    explicit Launcher(CpuStream& stream) : stream_(&stream), block_(std::make_unique<Block>()) {}

    template <class Body>
    void launch(const char* name, size_t bytes, const gpu::Grid& grid, const typename Body::Args& args) {
        stream_->enqueue(name, bytes, [name, grid, args, block = block_.get()] {
            size_t shared = 0;
            if constexpr (requires { Body::kSharedBytes; }) shared = static_cast<size_t>(Body::kSharedBytes);
            const std::function<void(Gpu&)> body = [&args](Gpu& gpu) { Body::run(gpu, args); };
            block->fault = {};
            for (int z = 0; z < grid.z; ++z) {
                for (int y = 0; y < grid.y; ++y) {
                    for (int x = 0; x < grid.x; ++x) block->run({x, y, z}, Body::kThreads, shared, body);
                }
            }
            if (block->fault.kind != gpu::Fault::kNone) throw gpu::describe(name, block->fault);
        });
    }

    /// Stands for the library's product.
    void multiply(const char* name, size_t bytes, const Tensor& out, const Tensor& x, const Tensor& w) {
        stream_->enqueue(name, bytes, [out, x, w] {
            gpu::with_type(w.dtype(), [&](auto t) {
                using T = decltype(t);
                const Matrix<float> o = out.as<float>();
                const Matrix<const T> in = x.as<const T>(), weights = w.as<const T>();
                for (int64_t r = 0; r < o.rows; ++r) {
                    for (int64_t n = 0; n < o.cols; ++n) {
                        float sum = 0;
                        for (int64_t k = 0; k < in.cols; ++k) {
                            sum += static_cast<float>(in(r, k)) * static_cast<float>(weights(n, k));
                        }
                        o(r, n) = sum;
                    }
                }
            });
        });
    }

  private:
    CpuStream* stream_;
    std::unique_ptr<Block> block_;
};

}  // namespace trireme::simt
