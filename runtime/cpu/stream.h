#pragma once
/// CpuStream: the stream of the CPU backend. Its worker thread runs small closures in order: kernels, copies, waits and
/// host calls. Enqueueing a closure allocates nothing, except while a graph is recorded.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "runtime/cpu/team.h"
#include "runtime/stream.h"

namespace trireme {

class CpuStream final : public Stream {
  public:
    /// Size of the largest closure, which holds an operation's tensors by value.
    static constexpr size_t kClosureBytes = 1536;

    /// `name` must outlive the stream. `threads`: threads of a closure's parallel regions, with the worker.
    CpuStream(const char* name, int threads);
    /// Waits until the worker has finished all tasks.
    ~CpuStream() override;

    /// Enqueues f(), which runs on the worker after everything before it. Blocks while 1,024 tasks are unfinished.
    /// `what` (a literal) and `bytes` go into the trace; "" is not traced.
    template <class F>
    void enqueue(const char* what, size_t bytes, F&& f) {
        using Closure = std::decay_t<F>;
        static_assert(sizeof(Closure) <= kClosureBytes && alignof(Closure) <= alignof(std::max_align_t));
        static_assert(std::is_trivially_copyable_v<Closure>, "a closure may be skipped, or repeated by a graph");
        Task& task = next_slot();
        ::new (static_cast<void*>(task.closure.data())) Closure(std::forward<F>(f));
        task.run = [](void* closure) { (*static_cast<Closure*>(closure))(); };
        task.what = what;
        task.bytes = bytes;
        publish();
    }

    std::unique_ptr<Graph> capture(const std::function<void()>& body) override;
    Event record() override;
    bool reached(const Event& event) const override;
    void synchronize(const Event& event) override;
    using Stream::synchronize;
    void emulate_link(double gbps, double us) override;
    trace::Total spent(const char* what) const override;
    const char* name() const override { return name_; }
    int threads() const { return team_.most(); }

  protected:
    void do_wait(const Event& event, const char* what) override;
    void do_copy(void* dst, const void* src, size_t bytes, const char* what) override;
    void do_call_host(const char* name, size_t bytes, const HostCall& call) override;

  private:
    struct Task {
        alignas(std::max_align_t) std::array<std::byte, kClosureBytes> closure;
        void (*run)(void*);
        const char* what;
        size_t bytes;
    };
    static constexpr uint64_t kSlots = 1024;
    class Replay;
    /// Pace of copies over an emulated link; used by the worker. A copy that directly follows another begins when that
    /// one should have ended: sleeping too long is not paid twice.
    struct Pace {
        double ns_per_byte = 0, latency_ns = 0;
        uint64_t free_at = 0;   // when the last copy should have ended
        bool straight = false;  // the worker has not waited since the last copy

        void hold(uint64_t begin, size_t bytes);
    };

    Task& next_slot();  // where the next task goes; waits while the ring is full
    void publish();     // makes that task visible to the worker
    void work();        // the worker's loop
    void set_error(std::exception_ptr error);
    std::exception_ptr error() const;
    /// Blocks the calling thread until `ticket` tasks have finished. Returns false if no task has finished for
    /// TRIREME_TIMEOUT_S.
    bool await(uint64_t ticket) const;
    void wake_waiters();

    const char* name_;
    Team team_;
    Pace pace_;
    std::unique_ptr<Task[]> tasks_;                    // a ring of kSlots; task i is in slot i % kSlots
    std::deque<Task>* captured_ = nullptr;             // where tasks go while a graph is recorded; null: to the ring
    std::atomic<uint64_t> enqueued_{0}, finished_{0};  // numbers of tasks so far
    std::atomic<const char*> running_{""};             // name of the task that the worker began last
    std::atomic<const trace::Lane*> lane_{nullptr};    // the worker's lane, once it runs
    std::atomic<bool> stop_{false}, failed_{false};
    static constexpr uint64_t kNobody = UINT64_MAX;
    mutable std::atomic<uint64_t> awaited_{kNobody};  // the first task that a thread sleeps for
    mutable std::mutex waiters_mutex_;                // for awaited_ and progressed_
    mutable std::condition_variable progressed_;
    mutable std::mutex error_mutex_;
    std::exception_ptr error_;
    std::thread worker_;
};

/// Casts to the CPU backend's stream; a stream of another backend is a bug.
CpuStream& cpu(Stream& stream);

}  // namespace trireme
