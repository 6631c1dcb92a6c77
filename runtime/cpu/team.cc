#include "runtime/cpu/team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "runtime/cpu/pause.h"
#include "runtime/error.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Waits until `value` differs from `seen`; returns whether the thread slept. Within a token the next region follows
/// after 1 to 40 us, and waking a sleeping thread takes as long: poll for a while before sleeping. Yielding the core
/// while polling was tried: 5 % faster on an idle machine, but four times slower with another program, even a nice one,
/// which keeps the core for its time slice.
bool await_change(const std::atomic<uint32_t>& value, uint32_t seen) {
    constexpr auto kLooking = std::chrono::microseconds(50);
    const auto begin = std::chrono::steady_clock::now();
    do {
        for (int i = 0; i < 64; ++i) {
            if (value.load(std::memory_order_acquire) != seen) return false;
            spin_pause();
        }
    } while (std::chrono::steady_clock::now() - begin < kLooking);
    value.wait(seen, std::memory_order_acquire);
    return true;
}

}  // namespace

Team*& Team::current() {
    thread_local Team* team = nullptr;
    return team;
}

Team::Team(int threads) : size_(threads), width_(threads) {
    check(threads > 0, "a team of {} threads", threads);
}

Team::~Team() {
    end();
}

void Team::serve(int thread, uint32_t seen) {
    lead();
    for (;; ++seen) {
        await_change(round_, seen);
        if (stop_) return;
        begun_.fetch_add(1, std::memory_order_relaxed);
        body_(closure_, thread, size_);
        if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
}

void Team::start() {
    const uint32_t seen = round_.load(std::memory_order_relaxed);
    threads_.reserve(static_cast<size_t>(size_) - 1);
    try {
        for (int t = 1; t < size_; ++t) threads_.emplace_back([this, t, seen] { serve(t, seen); });
    } catch (const std::system_error& e) {
        const size_t started = threads_.size() + 1;
        end();
        stop_ = false;
        fail(Exit::kOs, "{} compute threads requested, the system gives {} ({}): use fewer (-t)", size_, started,
             e.what());
    }
}

void Team::end() {
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
}

void Team::run(Body body, void* closure) {
    check(!in_region_, "a parallel region within a parallel region");
    if (width_ == 1) {
        in_region_ = true;
        body(closure, 0, 1);
        in_region_ = false;
        return;
    }
    if (threads_.empty()) start();
    in_region_ = true;
    const uint64_t begin_ns = trace::now();
    body_ = body;
    closure_ = closure;
    running_.store(static_cast<uint32_t>(size_ - 1), std::memory_order_relaxed);
    begun_.store(0, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    body(closure, 0, size_);
    wait_for_others(begin_ns);
    in_region_ = false;
}

void Team::wait_for_others(uint64_t begin_ns) {
    ++regions_;
    const bool all_begun = begun_.load(std::memory_order_relaxed) == static_cast<uint32_t>(size_ - 1);
    bool slept = false;
    const uint64_t before = running_.load(std::memory_order_acquire) == 0 ? 0 : trace::now();
    while (const uint32_t n = running_.load(std::memory_order_acquire)) slept = await_change(running_, n) || slept;
    if (!slept || all_begun) return;  // a thread that has begun can have a larger part
    // Late: another program used a core for a time slice (milliseconds), much longer than this thread's part took.
    constexpr uint64_t kSlice_ns = 300'000, kParts = 4;
    const uint64_t own = before - begin_ns, waited = trace::now() - before;
    if (waited > kSlice_ns + kParts * own && late_++ == 0) first_late_ = regions_;
}

void Team::adapt() {
    if (size_ == 1) return;
    constexpr uint64_t kFirstRest_ns = 50'000'000, kLongest_ns = 2'000'000'000, kLately = 4096;
    constexpr int kLate = 3;
    if (rest_until_ns_ != 0) {
        if (trace::now() < rest_until_ns_) return;
        rest_until_ns_ = 0;
        width_ = size_;
        late_ = 0;
        return;
    }
    if (regions_ - first_late_ > kLately) {  // the late regions are long past: the cores are free
        late_ = 0;
        rest_ns_ = 0;
    } else if (late_ >= kLate) {
        rest_ns_ = rest_ns_ == 0 ? kFirstRest_ns : std::min(2 * rest_ns_, kLongest_ns);
        rest_until_ns_ = trace::now() + rest_ns_;
        width_ = 1;
    }
}

void Team::barrier() {
    if (width_ == 1) return;
    const uint32_t seen = barriers_.load(std::memory_order_relaxed);  // no thread passes before this one arrives
    if (met_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size_)) {
        met_.store(0, std::memory_order_relaxed);
        barriers_.fetch_add(1, std::memory_order_release);
        barriers_.notify_all();
    } else {
        await_change(barriers_, seen);
    }
}

}  // namespace trireme
