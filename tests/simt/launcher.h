#pragma once
/// A Launcher of kernels/cuda/gpu_kernels.h that runs GPU kernels on a CPU stream.

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <vector>

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
        if constexpr (sizeof args <= kInClosure) {
            stream_->enqueue(name, bytes, [name, grid, args, b = block_.get()] { run<Body>(*b, name, grid, args); });
        } else {
            const auto kept = std::make_shared<const typename Body::Args>(args);
            large_.push_back(kept);
            stream_->enqueue(name, bytes,
                             [name, grid, a = kept.get(), b = block_.get()] { run<Body>(*b, name, grid, *a); });
        }
    }

    /// Replaces the library's matrix product.
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
    static constexpr size_t kInClosure = 512;

    template <class Body>
    static void run(Block& block, const char* name, const gpu::Grid& grid, const typename Body::Args& args) {
        size_t shared = 0;
        if constexpr (requires { Body::kSharedBytes; }) shared = static_cast<size_t>(Body::kSharedBytes);
        const std::function<void(Gpu&)> body = [&args](Gpu& gpu) { Body::run(gpu, args); };
        block.fault = {};
        // Blocks run in a mixed order, because they must not depend on each other.
        check(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x < int64_t{1} << 31 && grid.y < 65536 && grid.z < 65536,
              "{}: a GPU refuses a grid of {} x {} x {} blocks", name, grid.x, grid.y, grid.z);
        const int64_t plane = int64_t{grid.x} * grid.y, blocks = plane * grid.z, stride = stride_through(blocks);
        for (int64_t i = 0; i < blocks; ++i) {
            const int64_t at = (blocks - 1 - i) * stride % blocks;
            const std::array<int, 3> index = {static_cast<int>(at % grid.x), static_cast<int>(at % plane / grid.x),
                                              static_cast<int>(at / plane)};
            block.run(index, Body::kThreads, shared, body);
        }
        if (block.fault.kind != gpu::Fault::kNone) throw gpu::describe(name, block.fault);
    }

    /// Returns a number near n / 1.6 that has no common divisor with n.
    static int64_t stride_through(int64_t n) {
        int64_t stride = std::max<int64_t>(1, n * 5 / 8);
        while (std::gcd(stride, n) != 1) ++stride;
        return stride;
    }

    CpuStream* stream_;
    std::unique_ptr<Block> block_;
    std::vector<std::shared_ptr<const void>> large_;  // arguments that no closure holds; a graph may use them again
};

}  // namespace trireme::simt
