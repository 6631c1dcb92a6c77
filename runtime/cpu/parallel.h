#pragma once
/// Parallel regions of CPU kernels. They run on the team of the stream whose worker starts them; on other threads the
/// body runs as one thread.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "runtime/cpu/team.h"

namespace trireme {

/// Returns the number of threads of a region that is started here.
inline int parallel_width() {
    const Team* team = Team::current();
    return team ? team->size() : 1;
}

/// Runs body(thread, threads) on every thread of the team. An exception that leaves it calls std::terminate.
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

/// Distributes the items [0, n) of a region. Each thread begins with an item of its own and then takes the next free
/// one, so a thread that loses its core for a while takes fewer.
class Handout {
  public:
    Handout(int64_t n, int threads) : n_(n), next_(threads) {}
    /// Returns a thread's first item, or size() if there are too few.
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
