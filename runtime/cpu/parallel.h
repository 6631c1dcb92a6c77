#pragma once
/// Parallel regions of CPU kernels. Without OpenMP (the tsan preset) the same body runs as one thread.

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace trireme {

/// Threads that a region started here will have.
inline int parallel_width() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/// body(thread, threads) on every thread. Exceptions must not leave the body.
template <class Body>
void parallel(Body&& body) {
#ifdef _OPENMP
#pragma omp parallel
    body(omp_get_thread_num(), omp_get_num_threads());
#else
    body(0, 1);
#endif
}

/// All threads of the region meet. Only inside `parallel`.
inline void parallel_barrier() {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

/// The part [begin, end) of n items that belongs to one thread: contiguous, sizes differ by at most one.
struct Part {
    int64_t begin, end;
};
inline Part part_of(int64_t n, int thread, int threads) {
    const int64_t base = n / threads, extra = n % threads;
    const int64_t begin = thread * base + (thread < extra ? thread : extra);
    return {begin, begin + base + (thread < extra ? 1 : 0)};
}

}  // namespace trireme
