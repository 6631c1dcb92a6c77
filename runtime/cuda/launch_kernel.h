#pragma once
/// launch_kernel(): the only place where the engine launches kernels, with or without programmatic dependent launch
/// (CUDA C++ Programming Guide, "Programmatic Dependent Launch").
///
/// A dependent launch may begin while the kernel before it on the stream still runs. Every kernel therefore begins with
/// griddepcontrol.wait: it waits until the kernel before it has ended and its writes are visible. Then it lets the next
/// kernel begin (run_body() in device_gpu.cuh). What overlaps is the launch itself, not the work.

#include <cstddef>

#include <cuda_runtime_api.h>

namespace trireme::gpu {

/// Enqueues a kernel. `kernel`: the address of a __global__ function. `shared`: bytes of dynamic shared memory.
/// `arguments`: addresses of the kernel's arguments. `dependent`: the operation before it on the stream is a kernel of
/// this project, and the kernels are compiled_for_dependent_launch(). `operation`: named in errors.
/// Errors: cuda() of call.h.
void launch_kernel(const void* kernel, dim3 blocks, int threads, size_t shared, cudaStream_t stream, void** arguments,
                   bool dependent, const char* operation);

/// Returns whether the kernels have the instructions for dependent launches on the current GPU: the driver took code
/// for compute capability 9.0 or higher.
bool compiled_for_dependent_launch();

}  // namespace trireme::gpu
