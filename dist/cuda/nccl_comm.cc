#include "dist/cuda/nccl_comm.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>

#include "dist/cuda/sum_parts.h"
#include "dist/slices.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/launch.h"
#include "runtime/env.h"
#include "runtime/graph.h"

namespace trireme {
namespace {

constexpr Slicing kSlicing = {.whole = 65536, .unit = 32};  // floats: slices begin on 128 bytes

struct Span {
    void* data;
    size_t bytes;
};

}  // namespace

NcclComm::NcclComm(const NcclApi& api, Comm& control, CudaDevice& device)
    : api_(api),
      control_(control),
      device_(device),
      received_(device),
      watchdog_(env().timeout_s, [this](const char* call, uint64_t n, double s) { hang(call, n, s); }) {
    ncclUniqueId id{};
    if (control.rank() == 0) settle(api_.get_unique_id(&id), "ncclGetUniqueId");
    std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
    control_.broadcast(bytes);
    std::memcpy(&id, bytes.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    cuda(cudaSetDevice(device_.facts().index), "cudaSetDevice");
    const auto watched = watch("ncclCommInitRankConfig");
    ncclComm_t fresh = nullptr;  // until it is made, the watchdog has nothing to abort
    const ncclResult_t made = api_.comm_init_rank_config(&fresh, size(), id, rank(), &config);
    comm_ = fresh;
    settle(made, "ncclCommInitRankConfig");
}

NcclComm::~NcclComm() {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > 0 || cards_given_up()) {
        tell_to_give_up();
        return;
    }
    try {
        const auto watched = watch("ncclCommFinalize");
        settle(api_.comm_finalize(comm_), "ncclCommFinalize");
        api_.comm_destroy(comm_);
    } catch (const Error&) {
        tell_to_give_up();
    }
}

// The abort may hang on a GPU that hangs, so no thread waits for its end.
void NcclComm::tell_to_give_up() noexcept {
    if (mailboxes_) mailboxes_->stop();
    if (comm_ == nullptr || given_up_.exchange(true)) return;
    std::thread([abort = api_.comm_abort, comm = comm_] { abort(comm); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

// NCCL connects at its first use, and allocates memory then: this must precede queries of free memory.
void NcclComm::connect() {
    constexpr size_t kBytes = size_t{4} << 20;
    const auto stream = device_.make_stream("connect");
    const Buffer<Space::kDevice> sums(device_, kBytes), all(device_, static_cast<size_t>(size()) * sizeof(float));
    for (const size_t bytes : {size_t{16} << 10, kBytes}) {
        all_reduce(*stream, sums.tensor(DType::kF32, {static_cast<int64_t>(bytes / sizeof(float))}));
    }
    all_gather(*stream, all.tensor(DType::kF32, {size(), 1}), sums.tensor(DType::kF32, {1}));
    stream->synchronize();
    choose_ways(*stream, static_cast<float*>(sums.data()));
    watched_.clear();  // a later stream may have the same address
}

// The sums have the same bits, so a run does not depend on what is measured here.
void NcclComm::choose_ways(Stream& stream, float* sums) {
    ways_ = fmt::format("NCCL {}", nccl_version(api_));
    try {
        mailboxes_.emplace(control_, device_);
    } catch (const AgreedError& why_not) {
        ways_ += fmt::format("; not in host memory: {}", why_not.what());
        return;
    }
    if (control_.gather_values(env().shm_sums.value_or(false) ? 1 : 0)[0] == 1) {
        in_mailboxes_ = Mailboxes::kMost;
        ways_ += fmt::format(", up to {} KiB in host memory (TRIREME_SHM_SUMS=1)", in_mailboxes_ / 256);
        return;
    }
    // Graphs are timed, as in decode forwards: single calls would take the host's time.
    constexpr int kRounds = 3, kCalls = 20;
    const auto graph_of = [&](int64_t n, int64_t in_mailboxes) {
        in_mailboxes_ = in_mailboxes;
        return stream.capture([&] {
            for (int i = 0; i < kCalls; ++i) all_reduce(stream, Tensor(sums, DType::kF32, {n}));
        });
    };
    const auto microseconds = [&](Graph& graph) {
        const auto begin = std::chrono::steady_clock::now();
        graph.launch();
        stream.synchronize();
        return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kCalls;
    };
    int64_t chosen = 0, last = 0;
    double by_nccl = INFINITY, by_mailboxes = 0;
    for (int64_t n = 1024; n <= Mailboxes::kMost && by_mailboxes < by_nccl; n *= 4) {
        const std::unique_ptr<Graph> nccl = graph_of(n, 0), mailboxes = graph_of(n, n);
        by_nccl = by_mailboxes = INFINITY;
        last = n;
        for (int round = 0; round < kRounds; ++round) {
            by_nccl = std::min(by_nccl, microseconds(*nccl));
            by_mailboxes = std::min(by_mailboxes, microseconds(*mailboxes));
        }
        // All ranks measure the same lengths: rank 0's times decide.
        by_nccl = control_.gather_values(by_nccl)[0];
        by_mailboxes = control_.gather_values(by_mailboxes)[0];
        if (by_mailboxes < by_nccl) chosen = n;
    }
    in_mailboxes_ = chosen;
    ways_ += chosen > 0 ? fmt::format(", up to {} KiB in host memory", chosen / 256) : ", not in host memory";
    ways_ += fmt::format(" ({} KiB: {:.0f} us by NCCL, {:.0f} us in host memory)", last / 256, by_nccl, by_mailboxes);
}

void NcclComm::abort(Exit code) {
    tell_to_give_up();
    control_.abort(code);
    std::terminate();  // not reached: GCC does not see that a virtual call never returns
}

void NcclComm::hang(const char* call, uint64_t sequence, double seconds) {
    say_that_it_hangs(rank(), call, sequence, seconds);
    abort(Exit::kUnavailable);
}

ncclResult_t NcclComm::state() const {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = api_.comm_get_async_error(comm_, &result);
    return asked == ncclSuccess ? result : asked;
}

void NcclComm::settle(ncclResult_t result, const char* call) const {
    while (result == ncclInProgress) {
        std::this_thread::yield();
        result = state();
    }
    require(result == ncclSuccess, Exit::kUnavailable, "{}: {} (NCCL {}; NCCL_DEBUG=WARN says more)", call,
            api_.get_error_string(result), nccl_version(api_));
}

CudaStream& NcclComm::watched(Stream& stream) {
    CudaStream& s = cuda(stream);
    if (std::find(watched_.begin(), watched_.end(), &stream) == watched_.end()) {
        watched_.push_back(&stream);
        s.on_wait([this] {
            const ncclResult_t now = state();
            if (now != ncclInProgress) settle(now, "a collective");
        });
    }
    return s;
}

template <class To, class From>
void NcclComm::exchange(CudaStream& stream, const char* call, size_t bytes, const To& to, const From& from) {
    stream.run(call, bytes, [&](cudaStream_t s) {
        const auto watched = watch(call);
        settle(api_.group_start(), "ncclGroupStart");
        for (int d = 1; d < size(); ++d) {
            const int next = (rank() + d) % size(), before = (rank() + size() - d) % size();
            const Span out = to(next), in = from(before);
            if (out.bytes > 0) settle(api_.send(out.data, out.bytes, ncclChar, next, comm_, s), "ncclSend");
            if (in.bytes > 0) settle(api_.recv(in.data, in.bytes, ncclChar, before, comm_, s), "ncclRecv");
        }
        settle(api_.group_end(), call);
    });
}

void NcclComm::do_all_reduce(Stream& stream, const Tensor& x) {
    constexpr const char* kCall = "all_reduce";
    CudaStream& s = watched(stream);
    auto* data = static_cast<float*>(x.data());
    const int64_t n = x.shape().elements();
    if (n <= in_mailboxes_) return mailboxes_->all_reduce(s, data, n);
    if (size() == 2) {
        s.run(kCall, x.bytes(), [&](cudaStream_t h) {
            const auto watched = watch(kCall);
            settle(api_.all_reduce(data, data, static_cast<size_t>(n), ncclFloat, ncclSum, comm_, h), kCall);
        });
        return;
    }
    const auto span = [](float* at, int64_t count) { return Span{at, static_cast<size_t>(count) * sizeof(float)}; };
    const auto slice = [&](int q) { return kSlicing.of(n, q, size()); };
    const Slice mine = slice(rank());
    auto* received = static_cast<float*>(
        received_.at_least(static_cast<size_t>(size() * std::max(kSlicing.whole, slice(0).count)) * sizeof(float)));
    exchange(
        s, kCall, x.bytes(), [&](int q) { return span(data + slice(q).begin, slice(q).count); },
        [&](int q) { return span(received + q * mine.count, mine.count); });
    if (mine.count > 0) {
        gpu::launch<gpu::SumParts>(s, "all_reduce_sum", 0, {gpu::div_up(mine.count, gpu::SumParts::kThreads)},
                                   {data + mine.begin, received, mine.count, mine.count, size(), rank()});
    }
    if (n <= kSlicing.whole) return;
    exchange(
        s, kCall, 0, [&](int) { return span(data + mine.begin, mine.count); },
        [&](int q) { return span(data + slice(q).begin, slice(q).count); });
}

void NcclComm::do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) {
    CudaStream& s = watched(stream);
    const size_t bytes = part.bytes();
    char* own = static_cast<char*>(out.data()) + static_cast<size_t>(rank()) * bytes;
    if (own != part.data()) stream.copy(Tensor(own, part.dtype(), part.shape()), part);
    exchange(
        s, "all_gather", out.bytes(),
        [&](int) {
            return Span{own, bytes};
        },
        [&](int q) {
            return Span{static_cast<char*>(out.data()) + static_cast<size_t>(q) * bytes, bytes};
        });
}

}  // namespace trireme
