#pragma once
/// launch_body() as nvcc compiles it. The .cu file of a body includes it.

#include "runtime/cuda/call.h"
#include "runtime/cuda/device_gpu.cuh"
#include "runtime/cuda/launch_body.h"
#include "runtime/cuda/launch_kernel.h"

namespace trireme::gpu {

template <class Body>
void launch_body(cudaStream_t stream, bool dependent, const Grid& grid, const typename Body::Args& args,
                 DeviceFault* fault, const char* operation) {
    size_t shared = 0;
    if constexpr (requires { Body::kSharedBytes; }) {
        static_assert(Body::kSharedBytes <= 99 << 10, "an Ada block has 99 KiB of shared memory");
        shared = static_cast<size_t>(Body::kSharedBytes);
    }
    if (shared > 48 << 10) {  // more must be requested: 1 us per launch
        cuda(cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
             operation);
    }
    const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
    // cudaLaunchKernel() copies the arguments; it takes their addresses without const.
    void* arguments[] = {const_cast<typename Body::Args*>(&args), &fault, &operation};
    launch_kernel(reinterpret_cast<const void*>(run_body<Body>), blocks, Body::kThreads, shared, stream, arguments,
                  dependent, operation);
}

}  // namespace trireme::gpu

/// Compiles a body for GPUs: TRIREME_KERNEL(Body) in one .cu file, within namespace trireme::gpu.
#define TRIREME_KERNEL(...)                                                                                         \
    template void launch_body<__VA_ARGS__>(cudaStream_t, bool, const Grid&, const __VA_ARGS__::Args&, DeviceFault*, \
                                           const char*)
