#pragma once
/// launch(): runs a body as an operation of a CUDA stream.

#include "runtime/cuda/launch_body.h"
#include "runtime/cuda/stream.h"

namespace trireme::gpu {

template <class Body>
void launch(CudaStream& stream, const char* operation, size_t bytes, const Grid& grid,
            const typename Body::Args& args) {
    stream.run(operation, bytes, [&](cudaStream_t s) { launch_body<Body>(s, grid, args, stream.fault(), operation); });
}

}  // namespace trireme::gpu
