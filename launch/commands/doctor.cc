#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <unistd.h>

#include "dist/make_comm.h"
#include "launch/commands/commands.h"
#include "launch/commands/expected.h"
#include "launch/commands/median.h"
#include "launch/report/output.h"
#include "launch/run/run_device.h"
#include "runtime/buffer.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

constexpr size_t kReadBytes = size_t{512} << 20;  // more than caches hold
constexpr size_t kCopyBytes = size_t{128} << 20, kReduceBytes = size_t{64} << 20;
constexpr size_t kReadPasses = 4;  // enough that starting the threads takes negligible time
constexpr int kRepeats = 7;

double seconds_since(uint64_t begin_ns) {
    return static_cast<double>(trace::now() - begin_ns) * 1e-9;
}

/// Runs `work` on all ranks at once, several times. Returns the median of this rank's rates, bytes / s * 1e-9.
template <class Work>
double gbps(const RankGroup& rank_group, double bytes, const Work& work) {
    work();  // touches pages, loads libraries
    std::vector<double> rates;
    for (int i = 0; i < kRepeats; ++i) {
        rank_group.comm().barrier();
        const uint64_t begin = trace::now();
        work();
        rates.push_back(bytes / seconds_since(begin) * 1e-9);
    }
    return median(rates);
}

uint64_t read_all(const uint64_t* from, size_t words, size_t threads) {
    std::vector<uint64_t> sums(threads, 0);
    std::vector<std::thread> readers;
    for (size_t t = 0; t < threads; ++t) {
        readers.emplace_back([&, t] {
            std::array<uint64_t, 8> sum{};
            const size_t begin = words / threads * t, end = words / threads * (t + 1);
            for (size_t pass = 0; pass < kReadPasses; ++pass) {
                for (size_t i = begin; i + 8 <= end; i += 8) {
                    for (size_t j = 0; j < 8; ++j) sum[j] = (sum[j] + pass) ^ from[i + j];
                }
            }
            for (const uint64_t s : sum) sums[t] ^= s;
        });
    }
    for (std::thread& r : readers) r.join();
    uint64_t all = 0;
    for (const uint64_t s : sums) all ^= s;
    return all;
}

/// The slowest rank's value.
double worst(const RankGroup& rank_group, double value, bool smallest) {
    const std::vector<double> all = rank_group.comm().gather_values(value);
    return smallest ? std::ranges::min(all) : std::ranges::max(all);
}

/// Formats the measurements as flags of trireme plan.
std::string plan_flags(const std::vector<Measured>& all) {
    std::string text = "flags of trireme plan:";
    for (const Measured& m : all) {
        switch (m.what) {
            case Measure::kDeviceCopy:
                text += fmt::format(" --device-gbps {:.4g}", m.value);
                break;
            case Measure::kH2d:
                text += fmt::format(" --link-gbps {:.4g}", m.value);
                break;
            case Measure::kHostRead:
                text += fmt::format(" --host-gbps {:.4g}", m.value);
                break;
            case Measure::kReduceLatency:
                text += fmt::format(" --reduce-us {:.4g}", m.value);
                break;
            case Measure::kReduceBandwidth:
                text += fmt::format(" --reduce-gbps {:.4g}", m.value);
                break;
            case Measure::kD2h:
                break;
        }
    }
    return text;
}

}  // namespace

void run_doctor(const Start& start, const RankGroup& rank_group) {
    const OpenedDevice opened = open_run_device(start, rank_group);
    Device& device = *opened.device;
    const std::unique_ptr<Comm> device_comm = make_device_comm(rank_group.comm(), device);
    Comm& comm = device_comm ? *device_comm : rank_group.comm();
    const std::unique_ptr<Stream> stream = device.make_stream("doctor");
    std::vector<Measured> all;
    {
        const Buffer<Space::kHost> host(device, kReadBytes);
        const Buffer<Space::kDevice> a(device, kCopyBytes), b(device, kCopyBytes);
        const Shape bytes{static_cast<int64_t>(kCopyBytes)};
        // Several copies per wait: on a GPU, launch and wait of a single copy would distort its time.
        const int copies = device.backend() == "cuda" ? 16 : 2;
        const auto copied = [&](const auto& to, const auto& from) {
            for (int i = 0; i < copies; ++i) stream->copy(to, from);
            stream->synchronize();
        };
        const double copied_bytes = static_cast<double>(copies) * kCopyBytes;
        volatile uint64_t sink = 0;
        std::memset(host.data(), 1, kReadBytes);
        all.push_back({Measure::kHostRead, gbps(rank_group, static_cast<double>(kReadPasses * kReadBytes), [&] {
                           sink = read_all(static_cast<const uint64_t*>(host.data()), kReadBytes / sizeof(uint64_t),
                                           static_cast<size_t>(start.threads));
                       })});
        all.back().value *= start.local_ranks;  // all ranks of a node read at once
        all.push_back({Measure::kDeviceCopy, gbps(rank_group, 2 * copied_bytes, [&] {
                           copied(b.tensor(DType::kU8, bytes), a.tensor(DType::kU8, bytes));
                       })});
        all.push_back({Measure::kH2d, gbps(rank_group, copied_bytes, [&] {
                           copied(a.tensor(DType::kU8, bytes), host.tensor(DType::kU8, bytes));
                       })});
        all.push_back({Measure::kD2h, gbps(rank_group, copied_bytes, [&] {
                           copied(host.tensor(DType::kU8, bytes), a.tensor(DType::kU8, bytes));
                       })});
        if (comm.size() > 1) {
            const auto reduce = [&](int64_t floats, int calls) {
                for (int i = 0; i < calls; ++i) comm.all_reduce(*stream, a.tensor(DType::kF32, {floats}));
                stream->synchronize();
            };
            constexpr int kCalls = 200;
            const double small = gbps(rank_group, kCalls, [&] { reduce(4096, kCalls); });  // calls / ns
            all.push_back({Measure::kReduceLatency, 1e-3 / small});
            const double wire = 2.0 * (comm.size() - 1) / comm.size() * static_cast<double>(kReduceBytes);
            all.push_back({Measure::kReduceBandwidth, gbps(rank_group, wire, [&] {
                               reduce(static_cast<int64_t>(kReduceBytes / sizeof(float)), 1);
                           })});
        }
    }
    for (Measured& m : all) m.value = worst(rank_group, m.value, m.what != Measure::kReduceLatency);
    rank_group.first_only([&] {
        std::string text = fmt::format(
            "{}, {} rank{} x {} thread{}; medians of {}, the slowest rank's\n", device.name(), rank_group.comm().size(),
            rank_group.comm().size() == 1 ? "" : "s", start.threads, start.threads == 1 ? "" : "s", kRepeats);
        for (const std::string& line : doctor_lines(all, device.name(), start.local_ranks)) text += line + "\n";
        TextOut(STDOUT_FILENO).write(text + plan_flags(all) + "\n");
    });
}

}  // namespace trireme
