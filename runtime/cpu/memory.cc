#include "runtime/cpu/memory.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKib = 1024;

/// The files of a version of control groups. In their statistics, page cache of files.
struct Names {
    const char *limit, *usage, *inactive, *active;
};
constexpr Names kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "};
constexpr Names kV2 = {"memory.max", "memory.current", "inactive_file ", "active_file "};

/// The number behind `key` of the first line that begins with it; a file of a number alone has the key "".
std::optional<size_t> number_in(const fs::path& file, std::string_view key) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(key)) continue;
        const size_t digit = line.find_first_not_of(" \t", key.size());
        size_t n = 0;
        if (digit == std::string::npos) return {};
        const auto [end, error] = std::from_chars(line.data() + digit, line.data() + line.size(), n);
        return error == std::errc() ? std::optional(n) : std::nullopt;  // "max" is no number
    }
    return {};
}

size_t less(size_t from, size_t n) {
    return from - std::min(from, n);
}

/// Narrows `m` to a group's limit, where it has one. Its usage counts page cache, which it gives up when asked to.
void narrow(HostMemory& m, const fs::path& group, const Names& names) {
    const std::optional<size_t> limit = number_in(group / names.limit, "");
    if (!limit) return;
    const size_t cache = number_in(group / "memory.stat", names.inactive).value_or(0) +
                         number_in(group / "memory.stat", names.active).value_or(0);
    const size_t usage = less(number_in(group / names.usage, "").value_or(0), cache);
    m.total = std::min(m.total, *limit);
    m.available = std::min(m.available, less(*limit, usage));
}

/// What a limit of this process leaves; `key` is what it counts, in /proc/self/status.
size_t left_of_limit(const fs::path& root, std::string_view limit, std::string_view key) {
    const std::optional<size_t> most = number_in(root / "proc/self/limits", limit);
    return most ? less(*most, number_in(root / "proc/self/status", key).value_or(0) * kKib) : SIZE_MAX;
}

/// Locking is not limited for who has CAP_IPC_LOCK.
bool may_lock(const fs::path& root) {
    constexpr int kIpcLock = 14;  // capabilities(7)
    std::ifstream in(root / "proc/self/status");
    for (std::string word; in >> word;) {
        uint64_t capabilities = 0;
        if (word == "CapEff:" && in >> std::hex >> capabilities) return (capabilities >> kIpcLock & 1) != 0;
    }
    return false;
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
    HostMemory m = {.total = number_in(root / "proc/meminfo", "MemTotal:").value_or(0) * kKib,
                    .available = number_in(root / "proc/meminfo", "MemAvailable:").value_or(0) * kKib};
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "number:controllers:/path"; v2: "0::/path"
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const bool v1 = controllers.find(",memory,") != std::string::npos;
        if (!v1 && !line.starts_with("0::")) continue;
        const fs::path top = root / (v1 ? "sys/fs/cgroup/memory" : "sys/fs/cgroup");
        // A container sees its own group at the top, and perhaps none of the path's.
        for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
            narrow(m, fs::path(top) += path, v1 ? kV1 : kV2);
            if (path.find('/') == std::string::npos) break;
        }
    }
    m.mappable =
        std::min(left_of_limit(root, "Max address space", "VmSize:"), left_of_limit(root, "Max data size", "VmData:"));
    if (const auto limit = number_in(root / "proc/self/limits", "Max locked memory"); limit && !may_lock(root)) {
        m.lockable = *limit;
    }
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
