#include "kernels/cuda/cuda_kernels.h"

#include "kernels/cuda/describe.h"
#include "kernels/cuda/gpu_kernels.h"
#include "kernels/cuda/gpu_tile_coder.h"
#include "kernels/cuda/multiply.h"
#include "runtime/cuda/launch.h"

namespace trireme {
namespace {

/// Launcher of gpu_kernels.h for a CUDA stream. Only prefill uses cuBLASLt; decode has its own products.
class CudaLauncher {
  public:
    CudaLauncher(Device& device, CudaStream& stream, Phase phase) : stream_(&stream) {
        if (phase == Phase::kPrefill) multiply_ = std::make_unique<gpu::Multiply>(device);
        stream.describe_faults(gpu::describe);
    }

    template <class Body>
    void launch(const char* name, size_t bytes, const gpu::Grid& grid, const typename Body::Args& args) {
        gpu::launch<Body>(*stream_, name, bytes, grid, args);
    }
    void multiply(const char* name, size_t bytes, const Tensor& out, const Tensor& x, const Tensor& w) {
        (*multiply_)(*stream_, name, bytes, out, x, w);
    }

  private:
    CudaStream* stream_;
    std::unique_ptr<gpu::Multiply> multiply_;
};

}  // namespace

std::unique_ptr<Kernels> make_cuda_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    return std::make_unique<gpu::GpuKernels<CudaLauncher>>(device, CudaLauncher(device, cuda(stream), phase), phase,
                                                           limits);
}

std::unique_ptr<TileCoder> make_cuda_tile_coder(Device& device, Stream& stream, const KvLayout& layout) {
    return std::make_unique<gpu::GpuTileCoder<CudaLauncher>>(CudaLauncher(device, cuda(stream), Phase::kDecode),
                                                             layout);
}

}  // namespace trireme
