#pragma once
/// Patience: how a thread waits for another process.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/cpu/pause.h"

namespace trireme {

/// One wait; wait() is called between two polls. A decode step's message takes microseconds, so the thread polls at
/// first. For the time `keeps` it also keeps its core: another program returns a core only after a time slice. Then it
/// yields between polls. A long wait sleeps, which makes the wait at most 1% longer.
class Patience {
  public:
    explicit Patience(std::chrono::microseconds keeps) : keeps_(keeps) {}

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
    int64_t looks_ = 0;
    std::chrono::steady_clock::time_point since_;
};

}  // namespace trireme
