#pragma once
/// The threads of a stream's parallel regions, fork and join. Not OpenMP's, for two reasons: how long libgomp's threads
/// spin before they sleep is for the environment to say before the program starts, and its default of milliseconds
/// keeps the host thread off the cores when a token is done, 1.2 ms a token on 2 cores against 0.1 ms here; and TSan
/// cannot see its barriers.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace trireme {

class Team {
  public:
    using Body = void (*)(void* closure, int thread, int threads) noexcept;

    /// `threads`, among them the one that will call run(); the others start with the first region.
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    /// Threads of the next region: all of them, or the leader alone (adapt()).
    int size() const { return width_; }
    int most() const { return size_; }
    /// The calling thread leads this team from now on: thread 0 of its regions.
    void lead() { current() = this; }
    /// body(closure, thread, size()) on every thread, and returns when all are through. Only the leader, not within a
    /// region. Exit::kOs where the system gives no thread.
    void run(Body body, void* closure);
    /// Between two kernels, by the leader. Where other programs have the cores, a thread that sleeps between regions
    /// gets its core back only at the end of a time slice, and every region waits milliseconds for it: 8,600 tokens per
    /// second of a small model became 400. Then the leader works alone for a while (bits do not depend on the number of
    /// threads), and tries again later.
    void adapt();
    /// All threads of the region meet; what one wrote before, the others see after.
    void barrier();

    /// The team that the calling thread leads or belongs to, or null.
    static Team*& current();

  private:
    void start();
    void end();
    /// The leader's part is done.
    void wait_for_others(uint64_t begin_ns);
    /// `seen`: regions before the thread's first.
    void serve(int thread, uint32_t seen);

    const int size_;
    int width_;                                 // the leader's, as what follows
    int late_ = 0;                              // regions that others began late, lately
    uint64_t regions_ = 0, first_late_ = 0;     // ever begun; the number at the first of these
    uint64_t rest_until_ns_ = 0, rest_ns_ = 0;  // 0: all threads work; the last rest
    bool stop_ = false;                         // this, the body and its closure are published by round_
    bool in_region_ = false;                    // the leader's
    Body body_ = nullptr;
    void* closure_ = nullptr;
    std::vector<std::thread> threads_;
    // A cache line each: threads spin on them.
    alignas(64) std::atomic<uint32_t> round_ = 0;    // regions ever begun
    alignas(64) std::atomic<uint32_t> running_ = 0;  // threads but the leader that are not through
    alignas(64) std::atomic<uint32_t> begun_ = 0;    // that are in the region
    alignas(64) std::atomic<uint32_t> met_ = 0;      // threads at the barrier
    alignas(64) std::atomic<uint32_t> barriers_ = 0;
};

}  // namespace trireme
