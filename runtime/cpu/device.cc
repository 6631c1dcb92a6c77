#include "runtime/cpu/device.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/resource.h>

#include "runtime/cpu/memory.h"
#include "runtime/cpu/pages.h"
#include "runtime/cpu/stream.h"

namespace trireme {
namespace {

/// Returns x of the line "model name : x" in /proc/cpuinfo.
std::string model_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with("model name")) continue;
        const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return "";
}

}  // namespace

CpuDevice::CpuDevice(int threads, int local_ranks)
    : threads_(threads), local_ranks_(local_ranks), available_at_start_(host_memory().available) {
    check(local_ranks >= 1, "{} ranks on this node", local_ranks);
}

std::string CpuDevice::name() const {
    return "cpu: " + model_name();
}

size_t CpuDevice::memory_total() const {
    return host_memory().total;
}

/// Returns the size of the largest allocation that is possible now.
size_t CpuDevice::grantable() const {
    const HostMemory now = host_memory();
    const size_t left =
        left_to_rank(available_at_start_, now.available, used(Space::kDevice) + used(Space::kHost), local_ranks_);
    return std::min(left, now.mappable);
}

/// Like grantable(), less the address space of threads' stacks and the heap, which a run also needs.
size_t CpuDevice::memory_free() const {
    const size_t free = grantable(), mappable = host_memory().mappable;
    if (mappable == SIZE_MAX) return free;
    rlimit stack = {};
    ::getrlimit(RLIMIT_STACK, &stack);
    constexpr size_t kStack = size_t{8} << 20, kHeap = size_t{32} << 20;
    constexpr size_t kOthers = 4;  // threads of streams and signals
    const size_t each = stack.rlim_cur == RLIM_INFINITY ? kStack : static_cast<size_t>(stack.rlim_cur);
    const size_t besides = (static_cast<size_t>(threads_) + kOthers) * each + kHeap;
    return std::min(free, mappable - std::min(mappable, besides));
}

void* CpuDevice::allocate(Space space, size_t bytes) {
    const size_t size = page_bytes(bytes);
    // Linux would grant more than is available, and kill the process when it touches the memory: refuse it here.
    const size_t available = grantable();
    void* data = size > available ? nullptr : map_pages(bytes);
    require(data != nullptr, Exit::kOs,
            "{} memory: {:.1f} MiB required, {:.1f} MiB available{}: use a smaller context (-c) or more ranks",
            space == Space::kDevice ? "device (cpu arena)" : "host", mib(size), mib(available),
            local_ranks_ > 1 ? fmt::format(" to each of {} ranks", local_ranks_) : "");
    account(space, static_cast<ptrdiff_t>(size));
    return data;
}

void CpuDevice::release(Space space, void* data, size_t bytes) noexcept {
    unmap_pages(data, bytes);
    account(space, -static_cast<ptrdiff_t>(page_bytes(bytes)));
}

std::unique_ptr<Stream> CpuDevice::make_stream(const char* name) {
    return std::make_unique<CpuStream>(name, threads_);
}

}  // namespace trireme
