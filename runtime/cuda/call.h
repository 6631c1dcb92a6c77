#pragma once
/// CUDA's error codes as exceptions.

#include <cuda_runtime_api.h>

namespace trireme {

/// Throws what a call that returned `code` reports: Exit::kOs for memory, else Exit::kUnavailable. `call`: its name.
void cuda(cudaError_t code, const char* call);
/// The same, where it happened included: "stream compute, after attention".
void cuda(cudaError_t code, const char* call, const char* stream, const char* after);

}  // namespace trireme
