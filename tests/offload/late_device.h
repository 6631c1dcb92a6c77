#pragma once
/// A CPU device whose copy streams are late: data does not arrive before a wait for it.

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/cpu/device.h"
#include "runtime/cpu/stream.h"

namespace trireme::test {

/// Sleeps before every copy; otherwise a CPU stream.
class LateStream final : public Stream {
  public:
    /// `us` is called for every copy.
    LateStream(const char* name, const std::function<int()>& us) : inner_(name, 1), us_(us) {}

    Event record() override { return inner_.record(); }
    bool reached(const Event& event) const override { return inner_.reached(event); }
    void synchronize(const Event& event) override { inner_.synchronize(event); }
    using Stream::synchronize;
    void emulate_link(double gbps, double us) override { inner_.emulate_link(gbps, us); }
    trace::Total spent(const char* what) const override { return inner_.spent(what); }
    const char* name() const override { return inner_.name(); }

  protected:
    void do_copy(void* dst, const void* src, size_t bytes, const char* what) override {
        const int us = us_();
        if (us > 0) inner_.call_host("late", 0, [us] { std::this_thread::sleep_for(std::chrono::microseconds(us)); });
        const Shape shape{static_cast<int64_t>(bytes)};
        inner_.copy(Tensor(dst, DType::kU8, shape), Tensor(const_cast<void*>(src), DType::kU8, shape), what);
    }
    void do_wait(const Event& event, const char* what) override { inner_.wait(event, what); }
    void do_call_host(const char* name, size_t bytes, const HostCall& call) override {
        inner_.enqueue(name, bytes, [copy = HostCall(call)]() mutable { copy.run(copy.closure.data()); });
    }

  private:
    CpuStream inner_;
    const std::function<int()>& us_;
};

/// Delays copies of streams named "h2d" and "d2h" by us() microseconds. The thread that enqueues calls us().
class LateDevice final : public CpuDevice {
  public:
    explicit LateDevice(std::function<int()> us) : CpuDevice(1), us_(std::move(us)) {}
    std::unique_ptr<Stream> make_stream(const char* name) override {
        const std::string_view n = name;
        if (n == "h2d" || n == "d2h") return std::make_unique<LateStream>(name, us_);
        return CpuDevice::make_stream(name);
    }

  private:
    std::function<int()> us_;
};

}  // namespace trireme::test
