#pragma once
/// Team: the threads of a stream's parallel regions (fork and join); kernels use it through parallel.h. It replaces
/// OpenMP for two reasons. TSan cannot see libgomp's barriers. How long libgomp's threads spin before they sleep can be
/// set in the environment only. The default of milliseconds keeps the host thread off the cores after a token: 1.2 ms
/// per token on 2 cores, 0.1 ms here.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace trireme {

class Team {
  public:
    using Body = void (*)(void* closure, int thread, int threads) noexcept;

    /// `threads` includes the thread that will call run(); the others start with the first region.
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    /// Number of threads of the next region: all, or the leader alone (adapt()).
    int size() const { return width_; }
    /// Number of threads of the team.
    int most() const { return size_; }
    /// Makes the calling thread the leader of this team: thread 0 of its regions.
    void lead() { current() = this; }
    /// Runs body(closure, thread, size()) on every thread; returns when all have finished. Only the leader may call it,
    /// and not within a region. Errors: Exit::kOs if the system cannot start a thread.
    void run(Body body, void* closure);
    /// Adapts size(); the leader calls it between two kernels. If other programs use the cores, a thread that sleeps
    /// between regions gets its core back only at the end of a time slice. Every region then waits milliseconds for it:
    /// 8,600 tokens per second of a small model became 400. The leader then works alone for a while and tries again
    /// later. Results do not depend on the number of threads.
    void adapt();
    /// Waits until all threads of the region have arrived; earlier writes are visible to all afterwards. Called by each
    /// thread of a region.
    void barrier();

    /// Returns the team that the calling thread leads or belongs to, or null: a reference to a variable of the thread.
    static Team*& current();

  private:
    void start();
    void end();
    /// Waits for the other threads after the leader's part is done.
    void wait_for_others(uint64_t begin_ns);
    /// Body of the other threads. `seen`: number of regions before the thread's first.
    void serve(int thread, uint32_t seen);

    const int size_;
    int width_;                                 // used by the leader only, like the members down to rest_ns_
    int late_ = 0;                              // recent regions that another thread began a time slice late
    uint64_t regions_ = 0, first_late_ = 0;     // number of regions; its value at the first late one
    uint64_t rest_until_ns_ = 0, rest_ns_ = 0;  // 0: all threads work; length of the last rest
    bool stop_ = false;                         // published by round_, like body_ and closure_
    bool in_region_ = false;                    // used by the leader only
    Body body_ = nullptr;
    void* closure_ = nullptr;
    std::vector<std::thread> threads_;
    // Threads spin on these: a cache line each.
    alignas(64) std::atomic<uint32_t> round_ = 0;     // number of regions
    alignas(64) std::atomic<uint32_t> running_ = 0;   // threads other than the leader that have not finished
    alignas(64) std::atomic<uint32_t> begun_ = 0;     // threads other than the leader that have begun
    alignas(64) std::atomic<uint32_t> met_ = 0;       // threads at the barrier
    alignas(64) std::atomic<uint32_t> barriers_ = 0;  // number of barriers that all threads have reached
};

}  // namespace trireme
