#pragma once
/// Parallel regions of CPU kernels, on the team of the stream whose worker runs them; elsewhere the same body runs as
/// one thread.

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

/// body(thread, threads) on every thread. Exceptions must not leave the body.
template <class Body>
void parallel(Body&& body) {
    Team* team = Team::current();
    if (!team) return body(0, 1);
    using B = std::remove_reference_t<Body>;
    team->run([](void* b, int thread, int threads) { (*static_cast<B*>(b))(thread, threads); }, &body);
}

/// All threads of the region meet. Only inside `parallel`.
inline void parallel_barrier() {
    if (Team* team = Team::current()) team->barrier();
}

/// Items [0, n) of a region, handed out to its threads as they come for them: one that loses its core to a neighbour
/// for a while takes fewer.
class Handout {
  public:
    explicit Handout(int64_t n) : n_(n) {}
    /// The next item, or n when none is left.
    int64_t next() {
        const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < n_ ? i : n_;
    }
    int64_t size() const { return n_; }

  private:
    const int64_t n_;
    std::atomic<int64_t> next_ = 0;
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
