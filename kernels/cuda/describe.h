#pragma once
/// describe(): the error that a kernel's fault becomes.

#include "kernels/cuda/fault.h"
#include "runtime/error.h"

namespace trireme::gpu {

/// Returns an error such as "embed: id 7 is outside the vocabulary of 5". Exit::kData if the model's numbers are at
/// fault, else Exit::kInternal.
Error describe(const char* operation, const FaultRecord& fault);

}  // namespace trireme::gpu
