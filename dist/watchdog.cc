#include "dist/watchdog.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "runtime/error.h"

namespace trireme {

Watchdog::Watchdog(double timeout_s, Fire fire)
    : thread_([this, timeout_s, fire = std::move(fire)] { run(timeout_s, fire); }) {}

Watchdog::~Watchdog() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

Watchdog::Watch::Watch(Watchdog& dog, Lane lane, const char* call) : call_(dog.lanes_[lane].call) {
    dog.lanes_[lane].sequence.fetch_add(1, std::memory_order_relaxed);
    const char* under_way = call_.exchange(call, std::memory_order_release);
    check(under_way == nullptr, "{} was called during {}: two streams share a Comm", call, under_way ? under_way : "");
}

Watchdog::Watch::~Watch() {
    call_.store(nullptr, std::memory_order_release);
}

void say_that_it_hangs(int rank, const char* call, uint64_t sequence, double seconds) {
    const std::string line = fmt::format(
        "trireme: error: rank {}: {} (number {}) has waited {:.0f} s for its peers: one has died, hangs or is slow "
        "(TRIREME_TIMEOUT_S); the run ends\n",
        rank, call, sequence, seconds);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void Watchdog::run(double timeout_s, const Fire& fire) {
    using Clock = std::chrono::steady_clock;
    const double tick_s = std::clamp(timeout_s / 16, 0.005, 1.0);
    std::array<double, 2> waited{};
    std::array<uint64_t, 2> seen{};

    std::unique_lock lock(mutex_);
    for (auto last = Clock::now(); !stop_;) {
        changed_.wait_for(lock, std::chrono::duration<double>(tick_s));
        const auto now = Clock::now();
        const double elapsed = std::min(std::chrono::duration<double>(now - last).count(), 2 * tick_s);
        last = now;
        for (size_t i = 0; i < lanes_.size() && !stop_; ++i) {
            const char* call = lanes_[i].call.load(std::memory_order_acquire);
            const uint64_t sequence = lanes_[i].sequence.load(std::memory_order_relaxed);
            waited[i] = call != nullptr && sequence == seen[i] ? waited[i] + elapsed : 0;
            seen[i] = sequence;
            if (waited[i] >= timeout_s) {
                lock.unlock();
                fire(call, sequence, waited[i]);
                return;
            }
        }
    }
}

}  // namespace trireme
