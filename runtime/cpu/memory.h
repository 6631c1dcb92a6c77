#pragma once
/// How much memory this machine, and the control groups this process is in, still have to give.

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
    size_t lockable = SIZE_MAX;  // bytes this process may lock (ulimit -l); without bound for root
};

constexpr double mib(size_t bytes) {
    return static_cast<double>(bytes) / (1 << 20);
}

/// Why `bytes` may not be pinned, in words with a remedy; empty: nothing known speaks against it.
std::string pinning_obstacle(size_t bytes, const HostMemory& memory);

/// The smallest of what /proc/meminfo says and what the memory control group of this process (v2 or v1) and each one
/// around it may still take, and /proc/self about mapping and locking. `root` is where /proc and /sys are: "/", or a
/// test's folder.
HostMemory host_memory(const std::filesystem::path& root = "/");

/// What one of `ranks` ranks of a node may still allocate, if all allocate alike: its share of what was available at
/// the start less what it has `used`, touched or not, and no more than there is now.
constexpr size_t left_to_rank(size_t at_start, size_t now, size_t used, int ranks) {
    const size_t share = at_start / static_cast<size_t>(ranks);
    return std::min(now, share - std::min(share, used));
}

}  // namespace trireme
