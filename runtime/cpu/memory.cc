#include "runtime/cpu/memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKib = 1024;

/// File names of one version of control groups, and the keys of page cache in its statistics.
struct Names {
    const char *limit, *usage, *inactive, *active;
};
constexpr Names kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "};
constexpr Names kV2 = {"memory.max", "memory.current", "inactive_file ", "active_file "};

/// The lines of a file in /proc or of a control group, read once: each allocation needs several numbers of it.
class StatusFile {
  public:
    explicit StatusFile(const fs::path& file) {
        std::ifstream in(file);
        for (std::string line; std::getline(in, line);) lines_.push_back(std::move(line));
    }
    /// Returns the number after `key` in the first line that begins with it; a file with only a number has the key "".
    std::optional<size_t> number(std::string_view key, int base = 10) const {
        for (const std::string& line : lines_) {
            if (!line.starts_with(key)) continue;
            const size_t digit = line.find_first_not_of(" \t", key.size());
            size_t n = 0;
            if (digit == std::string::npos) return {};
            const auto [end, error] = std::from_chars(line.data() + digit, line.data() + line.size(), n, base);
            return error == std::errc() ? std::optional(n) : std::nullopt;  // "max" is no number
        }
        return {};
    }

  private:
    std::vector<std::string> lines_;
};

size_t less(size_t from, size_t n) {
    return from - std::min(from, n);
}

/// Reduces `m` to a group's limit, if it has one. Usage includes page cache, which the kernel frees when needed.
void narrow(HostMemory& m, const fs::path& group, const Names& names) {
    const std::optional<size_t> limit = StatusFile(group / names.limit).number("");
    if (!limit) return;
    const StatusFile statistics(group / "memory.stat");
    const size_t cache = statistics.number(names.inactive).value_or(0) + statistics.number(names.active).value_or(0);
    const size_t usage = less(StatusFile(group / names.usage).number("").value_or(0), cache);
    m.total = std::min(m.total, *limit);
    m.available = std::min(m.available, less(*limit, usage));
}

/// Returns the unused part of this process's `limit`; `key` names the use in /proc/self/status.
size_t left_of_limit(const StatusFile& limits, std::string_view limit, const StatusFile& status, std::string_view key) {
    const std::optional<size_t> most = limits.number(limit);
    return most ? less(*most, status.number(key).value_or(0) * kKib) : SIZE_MAX;
}

/// Returns whether the process may lock without limit (CAP_IPC_LOCK).
bool may_lock(const StatusFile& status) {
    constexpr int kIpcLock = 14;  // capabilities(7)
    return (status.number("CapEff:", 16).value_or(0) >> kIpcLock & 1) != 0;
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
    const StatusFile memory(root / "proc/meminfo"), limits(root / "proc/self/limits"),
        status(root / "proc/self/status");
    HostMemory m = {.total = memory.number("MemTotal:").value_or(0) * kKib,
                    .available = memory.number("MemAvailable:").value_or(0) * kKib};
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "number:controllers:/path"; v2: "0::/path"
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const bool v1 = controllers.find(",memory,") != std::string::npos;
        if (!v1 && !line.starts_with("0::")) continue;
        const fs::path top = root / (v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
        // In a container the top is its own group, and the path's groups may be missing.
        for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
            narrow(m, fs::path(top) += path, v1 ? kV1 : kV2);
            if (path.find('/') == std::string::npos) break;
        }
    }
    m.mappable = std::min(left_of_limit(limits, "Max address space", status, "VmSize:"),
                          left_of_limit(limits, "Max data size", status, "VmData:"));
    if (const auto limit = limits.number("Max locked memory"); limit && !may_lock(status)) m.lockable = *limit;
    return m;
}

std::string pinning_obstacle(size_t bytes, const HostMemory& m) {
    if (bytes > m.available) {
        return fmt::format(
            "{:.1f} MiB are available: free memory, raise the container's limit, or use a smaller context "
            "(-c)",
            mib(m.available));
    }
    if (bytes > m.mappable) {
        return fmt::format("this process may map {:.1f} MiB more: raise ulimit -v and -d", mib(m.mappable));
    }
    if (bytes > m.lockable) {
        return fmt::format("this process may lock {:.1f} MiB: raise ulimit -l (in containers: --ulimit memlock=-1)",
                           mib(m.lockable));
    }
    return "";
}

}  // namespace trireme
