#include "runtime/cuda/launch_kernel.h"

#include "runtime/cuda/call.h"
#include "runtime/cuda/copy_bytes.h"

// Weak: the module also runs where libcudart lacks these two functions, without dependent launches.
extern "C" {
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments)
    __attribute__((weak));
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) __attribute__((weak));
}

namespace trireme::gpu {

void launch_kernel(const void* kernel, dim3 blocks, int threads, size_t shared, cudaStream_t stream, void** arguments,
                   bool dependent, const char* operation) {
    const dim3 block(static_cast<unsigned>(threads));
    if (!dependent) {
        cuda(cudaLaunchKernel(kernel, blocks, block, arguments, shared, stream), operation);
        return;
    }
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cuda(cudaLaunchKernelExC(&config, kernel, arguments), operation);
}

bool compiled_for_dependent_launch() {
    if (&cudaLaunchKernelExC == nullptr || &cudaFuncGetAttributes == nullptr) return false;
    cudaFuncAttributes attributes{};
    cuda(cudaFuncGetAttributes(&attributes, copy_kernel()), "cudaFuncGetAttributes");
    return attributes.ptxVersion >= 90;
}

}  // namespace trireme::gpu
