#pragma once
/// cuda(): converts the error code of a CUDA call to an exception. give_up_cards(): ends all waits for GPUs that hang.

#include <cuda_runtime_api.h>

namespace trireme {

/// Returns if `code` is cudaSuccess. Errors: Exit::kOs if an allocation failed, Exit::kUnavailable for other codes.
/// `call`: name of the CUDA function that returned `code`.
void cuda(cudaError_t code, const char* call);
/// Like cuda(code, call), with a stream's name and its latest operation in the message: "stream compute, after
/// attention".
void cuda(cudaError_t code, const char* call, const char* stream, const char* after);

/// Gives up the GPUs of this process after a stream has failed to finish. A kernel may never end, and calls that free
/// or destroy would wait for it forever. From then on memory, streams and graphs are left to the end of the process,
/// and no stream is waited for.
void give_up_cards();
/// Returns whether give_up_cards() was called in this process.
bool cards_given_up();

}  // namespace trireme
