#include "runtime/cuda/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nvtx3/nvToolsExt.h>
#include <thread>
#include <tuple>

#include "runtime/cuda/call.h"
#include "runtime/cuda/copy_bytes.h"
#include "runtime/cuda/launch.h"
#include "runtime/env.h"

namespace trireme {

struct CudaStream::HostError {
    std::mutex mutex;
    std::exception_ptr first;
    std::atomic<bool> failed{false};
};

/// A host call in flight: a thread of the driver runs it.
struct CudaStream::PendingCall {
    HostError* error = nullptr;
    HostCall call;
    std::atomic<bool> busy{false};

    static void CUDART_CB enter(void* data) {
        auto& pending = *static_cast<PendingCall*>(data);
        HostError& error = *pending.error;
        try {
            if (!error.failed.load()) pending.call.run(pending.call.closure.data());
        } catch (...) {
            const std::lock_guard lock(error.mutex);
            if (!error.failed.exchange(true)) error.first = std::current_exception();
        }
        pending.busy.store(false, std::memory_order_release);
    }
};

/// An instantiated graph, and the operations that each launch adds to the totals.
class CudaStream::Recorded final : public Graph {
  public:
    explicit Recorded(CudaStream& stream) : stream_(stream) {}
    ~Recorded() override {
        if (cards_given_up()) {
            std::ignore = calls_.release();  // launched graphs may still run them
        } else if (executable_ != nullptr) {
            cudaGraphExecDestroy(executable_);
        }
    }
    void instantiate(cudaGraph_t graph) {
        const cudaError_t code = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        cuda(code, "cudaGraphInstantiate", stream_.name_, stream_.last_);
    }
    void launch() override {
        stream_.run("graph", 0, [&](cudaStream_t s) { cuda(cudaGraphLaunch(executable_, s), "cudaGraphLaunch"); });
        for (const trace::Total& t : operations_) trace::count(stream_.lane_, t);
    }
    void count(const char* what, size_t bytes) {
        const auto same =
            std::find_if(operations_.begin(), operations_.end(), [&](const trace::Total& t) { return t.name == what; });
        trace::Total& t = same == operations_.end() ? operations_.emplace_back(trace::Total{what, 0, 0, 0}) : *same;
        ++t.count;
        t.bytes += bytes;
    }
    PendingCall& call() { return calls_->emplace_back(); }

  private:
    CudaStream& stream_;
    cudaGraphExec_t executable_ = nullptr;
    std::vector<trace::Total> operations_;
    std::unique_ptr<std::deque<PendingCall>> calls_ =
        std::make_unique<std::deque<PendingCall>>();  // addressed by the graph
};

CudaStream::CudaStream(const char* name, int device, bool dependent_launch)
    : name_(name),
      device_(device),
      dependent_launch_(dependent_launch),
      watch_(std::make_shared<Watch>([this] { look_here(); })),
      calls_(new PendingCall[kCalls]),
      host_error_(std::make_unique<HostError>()),
      lane_(trace::make_lane(name)) {
    cuda(cudaSetDevice(device_), "cudaSetDevice");
    cuda(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& e : events_) cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate");
    void *host = nullptr, *mapped = nullptr;
    cuda(cudaHostAlloc(&host, sizeof(DeviceFault), cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    fault_ = static_cast<DeviceFault*>(host);
    *fault_ = {};
    cuda(cudaHostGetDevicePointer(&mapped, host, 0), "cudaHostGetDevicePointer");
    fault_on_device_ = static_cast<DeviceFault*>(mapped);
}

CudaStream::~CudaStream() {
    if (cards_given_up()) {
        std::ignore = calls_.release();  // the driver still has their addresses
        std::ignore = host_error_.release();
        return;
    }
    for (const Timed& t : timed_) idle_.insert(idle_.end(), {t.begin, t.end});
    for (const cudaEvent_t e : idle_) cudaEventDestroy(e);
    for (const cudaEvent_t e : events_) cudaEventDestroy(e);
    if (epoch_ != nullptr) cudaEventDestroy(epoch_);
    if (handle_ != nullptr) cudaStreamDestroy(handle_);
    cudaFreeHost(fault_);
}

bool CudaStream::begin_operation(const char* what) {
    nvtxRangePushA(what);
    if (capturing_ != nullptr || !trace::recording()) return false;
    if (epoch_ == nullptr) {
        cuda(cudaEventCreate(&epoch_), "cudaEventCreate");
        cuda(cudaEventRecord(epoch_, handle_), "cudaEventRecord");
        cuda(cudaEventSynchronize(epoch_), "cudaEventSynchronize");
        epoch_ns_ = trace::now();
    }
    while (idle_.size() < 2) {
        cudaEvent_t fresh = nullptr;
        cuda(cudaEventCreate(&fresh), "cudaEventCreate");
        idle_.push_back(fresh);
    }
    timed_.push_back({what, 0, idle_[idle_.size() - 2], idle_.back()});
    idle_.resize(idle_.size() - 2);
    cuda(cudaEventRecord(timed_.back().begin, handle_), "cudaEventRecord");
    return true;
}

void CudaStream::end_operation(const char* what, size_t bytes, bool timed) {
    if (capturing_ != nullptr) {
        capturing_->count(what, bytes);
    } else {
        trace::count(lane_, {what, 1, 0, bytes});
        if (timed) {
            timed_.back().bytes = bytes;
            cuda(cudaEventRecord(timed_.back().end, handle_), "cudaEventRecord");
        }
    }
    last_ = what;
    nvtxRangePop();
}

void CudaStream::collect_spans() {
    while (!timed_.empty() && cudaEventQuery(timed_.front().end) == cudaSuccess) {
        const Timed t = timed_.front();
        // Times are floats in milliseconds. After two minutes, neighbouring values of `begin_ms` are 16 us apart; the
        // duration is measured by itself, so it remains precise.
        float begin_ms = 0, took_ms = 0;
        cuda(cudaEventElapsedTime(&begin_ms, epoch_, t.begin), "cudaEventElapsedTime");
        cuda(cudaEventElapsedTime(&took_ms, t.begin, t.end), "cudaEventElapsedTime");
        const auto ns = [](float ms) { return static_cast<uint64_t>(static_cast<double>(ms) * 1e6); };
        const uint64_t begin = epoch_ns_ + ns(begin_ms);
        trace::add_time(lane_, t.what, begin, begin + ns(took_ms), t.bytes);
        idle_.insert(idle_.end(), {t.begin, t.end});
        timed_.pop_front();
    }
}

std::unique_ptr<Graph> CudaStream::capture(const std::function<void()>& body) {
    check(capturing_ == nullptr, "stream {}: a graph within a graph", name_);
    auto recorded = std::make_unique<Recorded>(*this);
    // Relaxed: NCCL makes calls, also in its own threads, that other modes refuse during a capture.
    cuda(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture", name_, last_);
    capturing_ = recorded.get();
    after_kernel_ = false;
    cudaGraph_t graph = nullptr;
    try {
        body();
        after_kernel_ = false;
    } catch (...) {
        capturing_ = nullptr;
        after_kernel_ = false;
        cudaStreamEndCapture(handle_, &graph);
        if (graph != nullptr) cudaGraphDestroy(graph);
        cudaGetLastError();  // clears the error of the failed capture
        throw;
    }
    capturing_ = nullptr;
    cuda(cudaStreamEndCapture(handle_, &graph), "cudaStreamEndCapture", name_, last_);
    recorded->instantiate(graph);
    return recorded;
}

Event CudaStream::record() {
    check(capturing_ == nullptr, "stream {}: an event within a graph", name_);
    const uint64_t ticket = recorded_ + 1;
    if (ticket > kEvents) await(ticket - kEvents);  // that ticket's event is reused
    cuda(cudaEventRecord(event(ticket), handle_), "cudaEventRecord", name_, last_);
    after_kernel_ = false;
    recorded_ = ticket;
    return {this, ticket};
}

void CudaStream::do_wait(const Event& event, const char* what) {
    check(capturing_ == nullptr, "stream {}: an event within a graph", name_);
    if (event.stream == nullptr || event.stream == this) return;
    const auto* other = dynamic_cast<const CudaStream*>(event.stream);
    check(other != nullptr, "stream {}: cannot wait for stream {} of another backend", name_, event.stream->name());
    watch_->follow(other->watch_);
    if (other->reached(event)) return;
    run(what, 0, [&](cudaStream_t s) {
        cuda(cudaStreamWaitEvent(s, other->event(event.ticket), 0), "cudaStreamWaitEvent", name_, last_);
    });
}

bool CudaStream::reached(const Event& e) const {
    if (e.stream == nullptr || e.ticket <= reached_ || e.ticket + kEvents <= recorded_) return true;
    const cudaError_t state = cudaEventQuery(event(e.ticket));
    if (state == cudaErrorNotReady) return false;
    cuda(state, "cudaEventQuery", name_, last_);
    reached_ = std::max(reached_, e.ticket);
    return true;
}

// A token takes milliseconds: the host polls without sleeping at first, then sleeps between polls.
template <class Done>
void CudaStream::wait_until(const Done& done, const char* what, const char* operation) const {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const auto patience = std::chrono::duration<double>(env().timeout_s);
    while (!done()) {
        const auto waited = Clock::now() - begin;
        require(!cards_given_up(), Exit::kUnavailable, "stream {}: another stream has been given up", name_);
        try {
            if (look_) look_();
            require(waited < patience, Exit::kUnavailable,
                    "stream {}: {}'{}' has not finished in {} s; raise TRIREME_TIMEOUT_S if it may", name_, what,
                    operation, env().timeout_s);
        } catch (...) {
            give_up_cards();
            throw;
        }
        if (waited < std::chrono::microseconds(500)) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }
}

void CudaStream::await(uint64_t ticket) const {
    wait_until([&] { return reached({this, ticket}); }, "what was enqueued up to ", last_);
}

void CudaStream::look_here() {
    {
        const std::lock_guard lock(host_error_->mutex);
        if (host_error_->first) std::rethrow_exception(host_error_->first);
    }
    const volatile DeviceFault& fault = *fault_;
    if (fault.kind != 0) {
        const gpu::FaultRecord record = {static_cast<gpu::Fault>(fault.kind), fault.x, fault.y};
        const char* operation = fault.operation;
        throw describe_ ? describe_(operation, record) : Error(Exit::kInternal, fmt::format("{}: fault", operation));
    }
    if (!timed_.empty()) collect_spans();
}

void CudaStream::synchronize(const Event& event) {
    if (event.stream == nullptr) return;
    check(event.stream == this, "stream {}: asked to synchronize an event of stream {}", name_, event.stream->name());
    await(event.ticket);
    watch_->look();
}

void CudaStream::do_copy(void* dst, const void* src, size_t bytes, const char* what) {
    if (bytes == 0) return;
    run(what, bytes, [&](cudaStream_t s) {
        cuda(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync", name_, last_);
    });
}

// A kernel copies: all streams share one copy engine to the device, and a copy of streamed KV lasts up to 10 ms.
void CudaStream::do_upload(void* dst, const void* src, size_t bytes, const char* what) {
    if (bytes == 0) return;
    const gpu::CopyBytes::Args args = gpu::CopyBytes::args(dst, src, bytes);
    gpu::launch<gpu::CopyBytes>(*this, what, bytes, gpu::CopyBytes::grid(args), args);
}

// Small copies on the device may also use a copy engine. Large ones are not faster with a kernel.
void CudaStream::do_copy_on_device(void* dst, const void* src, size_t bytes, const char* what) {
    constexpr size_t kSmall = size_t{1} << 20;
    if (bytes <= kSmall) return do_upload(dst, src, bytes, what);
    do_copy(dst, src, bytes, what);
}

void CudaStream::do_call_host(const char* name, size_t bytes, const HostCall& call) {
    PendingCall* pending = nullptr;
    if (capturing_ != nullptr) {
        pending = &capturing_->call();
    } else {
        pending = &calls_[called_++ % kCalls];
        // The host may be far ahead of the device.
        wait_until([&] { return !pending->busy.load(std::memory_order_acquire); }, "", name);
        pending->busy.store(true, std::memory_order_relaxed);
    }
    pending->error = host_error_.get();
    pending->call = call;
    run(name, bytes, [&](cudaStream_t s) {
        cuda(cudaLaunchHostFunc(s, &PendingCall::enter, pending), "cudaLaunchHostFunc", name_, last_);
    });
}

CudaStream& cuda(Stream& stream) {
    auto* s = dynamic_cast<CudaStream*>(&stream);
    check(s != nullptr, "stream {} is not a CUDA stream", stream.name());
    return *s;
}

}  // namespace trireme
