#pragma once
/// How a thread passes its time until another process has done its part.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/cpu/pause.h"

namespace trireme {

/// Of one wait, between two looks. A decode step's message takes microseconds, so it keeps looking; for the time
/// `keeps` it keeps its core, too, since from a stranger that is back no sooner than after a time slice. From then on
/// it lets others have the core between looks, and a long wait sleeps, at the cost of at most 1% more waiting.
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
