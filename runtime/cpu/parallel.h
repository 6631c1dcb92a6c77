#pragma once
/// Parallel regions of CPU kernels: parallel(body) runs a kernel's body on all threads of the stream that runs the
/// kernel. Outside of a stream's closures the calling thread runs the body alone.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "runtime/cpu/team.h"

namespace trireme {

/// Returns the number of threads that a region started here would have; 1 outside of a stream's closures.
inline int parallel_width() {
    const Team* team = Team::current();
    return team ? team->size() : 1;
}

/// Runs body(thread, threads) on every thread of the team, and returns when all have finished. Regions do not nest. An
/// exception that leaves `body` on a team calls std::terminate.
template <class Body>
void parallel(Body&& body) {
    Team* team = Team::current();
    if (!team) {
        body(0, 1);
        return;
    }
    using B = std::remove_reference_t<Body>;
    team->run([](void* b, int thread, int threads) noexcept { (*static_cast<B*>(b))(thread, threads); }, &body);
}

/// Waits until all threads of the region have arrived. Only inside `parallel`.
inline void parallel_barrier() {
    if (Team* team = Team::current()) team->barrier();
}

/// Distributes the items [0, n) of a region; its threads share one Handout. Each thread begins with an item of its own
/// and then takes the next free one. So a thread that loses its core for a while takes fewer items.
class Handout {
  public:
    Handout(int64_t n, int threads) : n_(n), next_(threads) {}
    /// Returns a thread's first item, or size() if there is none for it.
    int64_t first(int thread) const { return std::min<int64_t>(thread, n_); }
    /// Returns the next free item, or size() if none is left.
    int64_t next() { return std::min(next_.fetch_add(1, std::memory_order_relaxed), n_); }
    int64_t size() const { return n_; }

  private:
    const int64_t n_;
    std::atomic<int64_t> next_;
};

/// One thread's part [begin, end) of n items: contiguous; the sizes of parts differ by at most one.
struct Part {
    int64_t begin, end;
};
inline Part part_of(int64_t n, int thread, int threads) {
    const int64_t base = n / threads, extra = n % threads;
    const int64_t begin = thread * base + (thread < extra ? thread : extra);
    return {begin, begin + base + (thread < extra ? 1 : 0)};
}

}  // namespace trireme
