#pragma once
/// for_all(): independent pieces of host work on several threads, for loading and converting. Kernels use
/// cpu/parallel.h.

#include <cstddef>
#include <functional>

namespace trireme {

/// Calls body(0) .. body(n - 1) on the calling thread and others: at most `most` threads, one for each CPU that this
/// process may use. When all have ended, throws the error with the lowest index. Indices are handed out in order, so
/// that error does not depend on the threads.
void for_all(size_t n, size_t most, const std::function<void(size_t)>& body);

}  // namespace trireme
