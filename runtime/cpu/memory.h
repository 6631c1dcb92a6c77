#pragma once
/// Host memory: what this machine and the control groups of this process still have available.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

struct HostMemory {
    size_t total = 0;
    size_t available = 0;  // bytes that can be touched before Linux kills a process of ours; page cache counts as free
    size_t mappable = SIZE_MAX;  // bytes that this process may add to what it has mapped (ulimit -v, ulimit -d)
    size_t lockable = SIZE_MAX;  // bytes that this process may lock (ulimit -l); root: no limit
};

constexpr double mib(size_t bytes) {
    return static_cast<double>(bytes) / (1 << 20);
}

/// Returns why `bytes` cannot be pinned, with a remedy; "" if no known limit forbids it.
std::string pinning_obstacle(size_t bytes, const HostMemory& memory);

/// Returns the smallest of what /proc/meminfo reports and what the memory control group of this process (v2 or v1) and
/// the groups around it still allow. Limits on mapping and locking come from /proc/self. `root` is where /proc and /sys
/// are: "/", or a test's folder.
HostMemory host_memory(const std::filesystem::path& root = "/");

/// Returns the bytes that one of `ranks` ranks of a node may still allocate, if all allocate alike: its share of what
/// was available at the start, less what it has `used`, touched or not. The result is at most what is available now.
constexpr size_t left_to_rank(size_t at_start, size_t now, size_t used, int ranks) {
    const size_t share = at_start / static_cast<size_t>(ranks);
    return std::min(now, share - std::min(share, used));
}

}  // namespace trireme
