#pragma once
/// Parallel regions of CPU kernels, on the team of the stream whose worker runs them; elsewhere the same body runs as
/// one thread.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "runtime/cpu/team.h"

namespace trireme {

/// Threads that a region started here will have.
inline int parallel_width() {
    const Team* team = Team::current();
    return team ? team->size() : 1;
}

/// body(thread, threads) on every thread of the team. An exception must not leave it: std::terminate.
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

/// All threads of the region meet. Only inside `parallel`.
inline void parallel_barrier() {
    if (Team* team = Team::current()) team->barrier();
}

/// Items [0, n) of a region. Each thread begins with one of its own; the rest is handed out as they come for it: one
/// that loses its core to a neighbour for a while takes fewer.
class Handout {
  public:
    Handout(int64_t n, int threads) : n_(n), next_(threads) {}
    /// A thread's first item, or size() where there are too few.
    int64_t first(int thread) const { return std::min<int64_t>(thread, n_); }
    /// The next item for whoever asks, or size() when none is left.
    int64_t next() { return std::min(next_.fetch_add(1, std::memory_order_relaxed), n_); }
    int64_t size() const { return n_; }

  private:
    const int64_t n_;
    std::atomic<int64_t> next_;
};

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
