#pragma once
/// What the compiler of kernels and that of the host agree on.

#include <cuda_runtime_api.h>

#include "runtime/cuda/gpu.h"

namespace trireme {

/// Where kernels leave their stream's first fault: mapped host memory.
struct DeviceFault {
    int32_t kind;
    int32_t pad;
    long long x, y;
    const char* operation;  // an address of the host's, as the launch gave it
};

namespace gpu {

/// Enqueues one kernel; `operation`, a literal, is named by its faults. Defined and instantiated by nvcc, in the .cu
/// file that compiles the body (launch.cuh).
template <class Body>
void launch_body(cudaStream_t stream, const Grid& grid, const typename Body::Args& args, DeviceFault* fault,
                 const char* operation);

}  // namespace gpu
}  // namespace trireme
