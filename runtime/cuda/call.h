#pragma once
/// Conversion of CUDA's error codes to exceptions.

#include <cuda_runtime_api.h>

namespace trireme {

/// Throws the error of a call that returned `code`: Exit::kOs for memory, else Exit::kUnavailable. `call`: its name.
void cuda(cudaError_t code, const char* call);
/// Like cuda(code, call), with the place in the message: "stream compute, after attention".
void cuda(cudaError_t code, const char* call, const char* stream, const char* after);

/// Gives up the GPUs of this process after a stream has failed to finish. A kernel may never end, and calls that free
/// or destroy would wait for it forever. From then on memory, streams and graphs are left to the end of the process,
/// and no stream is waited for.
void give_up_cards();
bool cards_given_up();

}  // namespace trireme
