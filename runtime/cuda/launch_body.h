#pragma once
/// DeviceFault and launch_body(): what nvcc and the host compiler share, so that host code can launch kernels.

#include <cuda_runtime_api.h>

#include "runtime/cuda/gpu.h"

namespace trireme {

/// The first fault of a stream's kernels, in mapped host memory.
struct DeviceFault {
    int32_t kind;  // gpu::Fault; 0: none
    int32_t pad;
    long long x, y;
    const char* operation;  // a host address, passed by the launch
};

namespace gpu {

/// Enqueues one kernel; its faults name `operation`, a literal. `dependent`: see launch_kernel.h. Defined and
/// instantiated by nvcc, in the .cu file that compiles the body (launch.cuh).
template <class Body>
void launch_body(cudaStream_t stream, bool dependent, const Grid& grid, const typename Body::Args& args,
                 DeviceFault* fault, const char* operation);

}  // namespace gpu
}  // namespace trireme
