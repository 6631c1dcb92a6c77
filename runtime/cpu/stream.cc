#include "runtime/cpu/stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/env.h"
#include "runtime/trace.h"

namespace trireme {
CpuStream::CpuStream(const char* name, int threads)
    : name_(name), team_(threads), tasks_(new Task[kSlots]), worker_([this] { work(); }) {}

CpuStream::~CpuStream() {
    stop_.store(true, std::memory_order_release);
    enqueue("stop", 0, [] {});
    worker_.join();
}

/// A graph of the CPU: copies of the recorded tasks are enqueued again.
class CpuStream::Replay final : public Graph {
  public:
    explicit Replay(CpuStream& stream) : stream_(stream) {}
    void launch() override {
        for (const Task& task : tasks) {
            stream_.next_slot() = task;
            stream_.publish();
        }
    }
    std::deque<Task> tasks;

  private:
    CpuStream& stream_;
};

std::unique_ptr<Graph> CpuStream::capture(const std::function<void()>& body) {
    check(captured_ == nullptr, "stream {}: a graph within a graph", name_);
    auto graph = std::make_unique<Replay>(*this);
    captured_ = &graph->tasks;
    try {
        body();
    } catch (...) {
        captured_ = nullptr;
        throw;
    }
    captured_ = nullptr;
    return graph;
}

CpuStream::Task& CpuStream::next_slot() {
    if (captured_ != nullptr) return captured_->emplace_back();
    const uint64_t ticket = enqueued_.load(std::memory_order_relaxed);
    if (ticket >= kSlots && finished_.load(std::memory_order_acquire) + kSlots <= ticket) {
        // The ring is full: the host is far ahead of the worker.
        require(await(ticket + 1 - kSlots), Exit::kUnavailable,
                "stream {}: '{}' has not finished in {} s; raise TRIREME_TIMEOUT_S if it may", name_, running_.load(),
                env().timeout_s);
    }
    return tasks_[ticket % kSlots];
}

void CpuStream::publish() {
    if (captured_ != nullptr) return;
    enqueued_.fetch_add(1, std::memory_order_release);
    enqueued_.notify_one();
}

void CpuStream::work() {
    lane_.store(&trace::name_lane(name_), std::memory_order_release);
    team_.lead();
    uint64_t ticket = 0;
    while (true) {
        if (enqueued_.load(std::memory_order_acquire) == ticket) pace_.straight = false;
        // Between the tokens of a decode loop the next task comes within microseconds: poll before sleeping.
        for (int i = 0; i < 256 && enqueued_.load(std::memory_order_acquire) == ticket; ++i) std::this_thread::yield();
        enqueued_.wait(ticket, std::memory_order_acquire);
        Task& task = tasks_[ticket % kSlots];
        running_.store(task.what, std::memory_order_relaxed);
        team_.adapt();
        if (!failed_.load(std::memory_order_relaxed)) {
            const uint64_t begin = trace::now();
            try {
                task.run(task.closure.data());
            } catch (...) {
                set_error(std::current_exception());
            }
            if (task.what[0] != '\0') trace::add(task.what, begin, trace::now(), task.bytes);
        }
        const bool last =
            stop_.load(std::memory_order_acquire) && enqueued_.load(std::memory_order_acquire) == ticket + 1;
        finished_.store(++ticket);
        if (ticket >= awaited_.load()) wake_waiters();
        if (last) return;
    }
}

void CpuStream::set_error(std::exception_ptr error) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
}

std::exception_ptr CpuStream::error() const {
    const std::lock_guard lock(error_mutex_);
    return error_;
}

Event CpuStream::record() {
    check(captured_ == nullptr, "stream {}: an event within a graph", name_);
    return {this, enqueued_.load(std::memory_order_relaxed)};
}

bool CpuStream::reached(const Event& event) const {
    return event.stream == nullptr || finished_.load(std::memory_order_acquire) >= event.ticket;
}

// The host sleeps while the worker works. Polling every 50 us made a prefill on two virtual cores 1.3 times slower,
// since each wake-up preempts a compute thread. The worker stores finished_, then loads awaited_; this function stores
// awaited_, then loads finished_. All are sequentially consistent: one side sees the other.
bool CpuStream::await(uint64_t ticket) const {
    for (int i = 0; i < 64; ++i) {
        if (finished_.load() >= ticket) return true;
        std::this_thread::yield();
    }
    using Clock = std::chrono::steady_clock;
    const auto patience = std::chrono::duration<double>(env().timeout_s);
    uint64_t seen = finished_.load();
    auto since = Clock::now();
    std::unique_lock lock(waiters_mutex_);
    while (true) {
        awaited_.store(std::min(awaited_.load(), ticket));
        if (finished_.load() >= ticket) return true;
        progressed_.wait_for(lock, patience / 8);
        if (const uint64_t now = finished_.load(); now != seen) {
            seen = now;
            since = Clock::now();
        } else if (Clock::now() - since >= patience) {
            return finished_.load() >= ticket;
        }
    }
}

void CpuStream::wake_waiters() {
    const std::lock_guard lock(waiters_mutex_);
    awaited_.store(kNobody);  // threads that wait for later tasks set it again
    progressed_.notify_all();
}

void CpuStream::do_wait(const Event& event, const char* what) {
    check(captured_ == nullptr, "stream {}: an event within a graph", name_);
    if (event.stream == nullptr || event.stream == this) return;
    const auto* other = static_cast<const CpuStream*>(event.stream);
    enqueue(what, 0, [this, other, ticket = event.ticket] {
        if (other->finished_.load(std::memory_order_acquire) < ticket) pace_.straight = false;
        require(other->await(ticket), Exit::kUnavailable,
                "stream {}: waits for '{}' of stream {}, which has not moved for {} s", name_, other->running_.load(),
                other->name_, env().timeout_s);
        if (other->failed_.load(std::memory_order_acquire)) std::rethrow_exception(other->error());
    });
}

void CpuStream::synchronize(const Event& event) {
    if (event.stream == nullptr) return;
    check(event.stream == this, "stream {}: asked to synchronize an event of stream {}", name_, event.stream->name());
    require(await(event.ticket), Exit::kUnavailable,
            "stream {}: '{}' has not finished in {} s; raise TRIREME_TIMEOUT_S if it may", name_, running_.load(),
            env().timeout_s);
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error());
}

void CpuStream::do_copy(void* dst, const void* src, size_t bytes, const char* what) {
    enqueue(what, bytes, [this, dst, src, bytes] {
        const uint64_t begin = trace::now();
        if (bytes) std::memcpy(dst, src, bytes);
        if (pace_.ns_per_byte > 0) pace_.hold(begin, bytes);
    });
}

void CpuStream::emulate_link(double gbps, double us) {
    check(gbps > 0 && us >= 0, "stream {}: a link of {} GB/s and {} us", name_, gbps, us);
    enqueue("", 0, [this, gbps, us] { pace_ = {.ns_per_byte = 1 / gbps, .latency_ns = us * 1e3}; });
}

void CpuStream::Pace::hold(uint64_t begin, size_t bytes) {
    const uint64_t start = straight ? std::min(begin, free_at) : begin;
    free_at = start + static_cast<uint64_t>(latency_ns + ns_per_byte * static_cast<double>(bytes));
    straight = true;
    const uint64_t now = trace::now();
    if (now >= free_at) {  // the memory is slower than the link
        free_at = now;
        return;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(free_at - now));
}

void CpuStream::do_call_host(const char* name, size_t bytes, const HostCall& call) {
    enqueue(name, bytes, [copy = HostCall(call)]() mutable { copy.run(copy.closure.data()); });
}

trace::Total CpuStream::spent(const char* what) const {
    const trace::Lane* lane = lane_.load(std::memory_order_acquire);
    return lane == nullptr ? Stream::spent(what) : trace::total(*lane, what);
}

CpuStream& cpu(Stream& stream) {
    auto* s = dynamic_cast<CpuStream*>(&stream);
    check(s != nullptr, "stream {} is not a CPU stream", stream.name());
    return *s;
}

}  // namespace trireme
