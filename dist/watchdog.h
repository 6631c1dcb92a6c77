#pragma once
/// Watchdog: a deadline for calls that wait for other ranks (MPI, NCCL, SharedSums), and would block forever if one
/// dies.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

/// A thread that checks how long the calls of other threads block. It counts time in its own ticks, so a run that was
/// suspended as a whole does not time out.
class Watchdog {
  public:
    enum Lane : size_t { kDevice, kControl };  // at most one call at a time in each

    /// Called at most once, on the watchdog's thread, when `call` has lasted `timeout_s`; it is call number `sequence`
    /// of its lane. It should end the run.
    using Fire = std::function<void(const char* call, uint64_t sequence, double seconds)>;
    Watchdog(double timeout_s, Fire fire);
    ~Watchdog();

    /// A call under watch, from construction to destruction. `call` must be a literal.
    class Watch {
      public:
        Watch(Watchdog& dog, Lane lane, const char* call);
        ~Watch();
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;

      private:
        std::atomic<const char*>& call_;
    };

  private:
    struct Watched {
        std::atomic<const char*> call{nullptr};  // null: no call is in progress
        std::atomic<uint64_t> sequence{0};       // number of calls
    };

    void run(double timeout_s, const Fire& fire);

    std::array<Watched, 2> lanes_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stop_ = false;
    std::thread thread_;
};

/// Writes the error line of a Fire to stderr at any log level, in one write, so that lines of several ranks do not mix.
void say_that_it_hangs(int rank, const char* call, uint64_t sequence, double seconds);

}  // namespace trireme
