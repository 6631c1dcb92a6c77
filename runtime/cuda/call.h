#pragma once
/// CUDA's error codes as exceptions.

#include <cuda_runtime_api.h>

namespace trireme {

/// Throws what a call that returned `code` reports: Exit::kOs for memory, else Exit::kUnavailable. `call`: its name.
void cuda(cudaError_t code, const char* call);
/// The same, where it happened included: "stream compute, after attention".
void cuda(cudaError_t code, const char* call, const char* stream, const char* after);

/// This process has given up a stream: a kernel on the card may never end, and calls that free or destroy would wait
/// for it for ever. From then on memory, streams and graphs are left to the end of the process, and no stream is waited
/// for.
void give_up_cards();
bool cards_given_up();

}  // namespace trireme
