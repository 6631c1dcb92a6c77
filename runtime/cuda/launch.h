#pragma once
/// launch(): enqueues a kernel body (gpu.h) as an operation of a CUDA stream. Kernels, copies and NcclComm call it.

#include "runtime/cuda/launch_body.h"
#include "runtime/cuda/stream.h"

namespace trireme::gpu {

/// `operation` (a literal) and `bytes`, which the kernel moves, go into the trace.
template <class Body>
void launch(CudaStream& stream, const char* operation, size_t bytes, const Grid& grid,
            const typename Body::Args& args) {
    stream.run_kernel(operation, bytes, [&](cudaStream_t s, bool dependent) {
        launch_body<Body>(s, dependent, grid, args, stream.fault(), operation);
    });
}

}  // namespace trireme::gpu
