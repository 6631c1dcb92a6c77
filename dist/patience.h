#pragma once
/// Patience: how a thread waits between two polls of what another process writes: it spins, yields its core or sleeps.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/cpu/pause.h"

namespace trireme {

/// State of one wait. A decode step's message takes microseconds, so the thread polls at first. For the time `keeps` it
/// also keeps its core: another program returns a core only after a time slice. Then it yields between polls. From
/// kAwake on it sleeps between polls, which makes the wait at most 1% longer.
class Patience {
  public:
    explicit Patience(std::chrono::microseconds keeps) : keeps_(keeps) {}

    /// Called after each poll that found nothing; returns when the next poll is due.
    void wait() {
        using Clock = std::chrono::steady_clock;
        constexpr int kEagerLooks = 64;
        constexpr std::chrono::milliseconds kLongestNap(1);
        spin_pause();
        if (++looks_ <= kEagerLooks) return;
        if (looks_ == kEagerLooks + 1) since_ = Clock::now();
        const auto waited = Clock::now() - since_;
        if (waited >= kAwake) {
            std::this_thread::sleep_for(std::min<Clock::duration>(waited / 128, kLongestNap));
        } else if (waited >= keeps_) {
            std::this_thread::yield();
        }
    }

    static constexpr std::chrono::milliseconds kAwake{10};

  private:
    std::chrono::microseconds keeps_;
    int64_t looks_ = 0;                            // number of wait() calls
    std::chrono::steady_clock::time_point since_;  // when the thread had polled 64 times
};

}  // namespace trireme
