#pragma once
/// HostMemory: bytes that this process can still allocate, map and lock. Devices check them before they allocate,
/// because Linux grants more memory than there is, and kills a process that uses it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

struct HostMemory {
    size_t total = 0;            // bytes of the machine, or the limit of its control groups
    size_t available = 0;        // bytes that can be touched before Linux kills a process; page cache counts as free
    size_t mappable = SIZE_MAX;  // bytes that this process may add to what it has mapped (ulimit -v, ulimit -d)
    size_t lockable = SIZE_MAX;  // bytes that this process may lock (ulimit -l); SIZE_MAX: no limit (root)
};

constexpr double mib(size_t bytes) {
    return static_cast<double>(bytes) / (1 << 20);
}

/// Returns why `bytes` cannot be pinned, with a remedy; "" if no known limit forbids it.
std::string pinning_obstacle(size_t bytes, const HostMemory& memory);

/// Measures it now. `available` is the smallest of several numbers: that of /proc/meminfo, and what the memory control
/// group of this process (v2 or v1) and its parent groups still allow. Limits on mapping and locking come from
/// /proc/self. `root` is where /proc and /sys are: "/", or a test's folder.
HostMemory host_memory(const std::filesystem::path& root = "/");

/// Returns the bytes that one of `ranks` ranks of a node may still allocate, if all allocate alike. It is the rank's
/// share of what was available `at_start`, less what it has `used`, touched or not; at most what is available `now`.
constexpr size_t left_to_rank(size_t at_start, size_t now, size_t used, int ranks) {
    const size_t share = at_start / static_cast<size_t>(ranks);
    return std::min(now, share - std::min(share, used));
}

}  // namespace trireme
