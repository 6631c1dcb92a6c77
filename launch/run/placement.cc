#include "launch/run/placement.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace trireme {
namespace {

/// The hardware threads of each core that are in `allowed`; cores without any are left out.
std::vector<Cpus> within(const std::vector<Cpus>& cores, const Cpus& allowed) {
    std::vector<Cpus> result;
    for (const Cpus& core : cores) {
        Cpus part;
        std::set_intersection(core.begin(), core.end(), allowed.begin(), allowed.end(), std::back_inserter(part));
        if (!part.empty()) result.push_back(std::move(part));
    }
    return result;
}

/// The cores of one of `ranks` ranks: contiguous, counts differ by at most one. All cores if there are too few.
std::vector<Cpus> share_of(const std::vector<Cpus>& cores, int rank, int ranks) {
    const auto n = std::ssize(cores);
    if (n < ranks) return cores;
    return {cores.begin() + n * rank / ranks, cores.begin() + n * (rank + 1) / ranks};
}

Cpus flat(const std::vector<Cpus>& cores) {
    Cpus all;
    for (const Cpus& core : cores) all.insert(all.end(), core.begin(), core.end());
    std::sort(all.begin(), all.end());
    return all;
}

/// Limits the number of threads to each local rank's share of the container's quota.
int within_quota(const RankEnv& rank, const NodeCores& node, int64_t n) {
    if (node.quota > 0) n = std::min<int64_t>(n, std::llround(node.quota / rank.local_size));
    return static_cast<int>(std::max<int64_t>(n, 1));
}

}  // namespace

Placement place(const RankEnv& rank, const NodeCores& node, bool bind, int64_t threads) {
    const auto bound_cores = std::ssize(within(node.cores, node.bound));
    const bool narrowed = node.job_cpus > std::ssize(node.bound);  // else all ranks of the node run on the same cores

    Placement p;
    const auto work_on = [&](int64_t cores) {
        const auto cpus = std::ssize(p.cpus.empty() ? node.bound : p.cpus);  // 0: not known
        const int64_t wanted = threads == 0 ? cores : cpus == 0 ? threads : std::min<int64_t>(threads, cpus);
        p.threads = within_quota(rank, node, wanted);
        if (p.threads < threads) {
            p.warning = fmt::format(
                "-t {}: this rank may use {} cpu{}, and more threads would only wait for each other; it starts {}",
                threads, p.threads, p.threads == 1 ? "" : "s", p.threads);
        }
        return fmt::format("{} compute thread{}{}", p.threads, p.threads == 1 ? "" : "s", threads != 0 ? " (-t)" : "");
    };
    const auto stay = [&](const char* why) {
        p.line = fmt::format("cpus {} ({}), {}", cpu_list(node.bound), why,
                             work_on(narrowed ? bound_cores : bound_cores / rank.local_size));
        return p;
    };
    if (!bind) return stay("--bind none: as the launcher bound them");
    if (rank.launcher != "mpirun")
        return stay(rank.launcher == "none" ? "all there are" : "as the launcher bound them");
    if (!node.policy.empty()) return stay("mpirun binds as its flags say");
    if (node.job.empty()) return stay("mpirun's own binding cannot be read");
    if (!narrowed) return stay("not bound");

    const std::vector<Cpus> job = within(node.cores, node.job);
    const std::vector<Cpus> share = share_of(job, rank.local_rank, rank.local_size);
    if (flat(share) == node.bound) return stay("mpirun's binding is this rank's share");
    p.cpus = flat(share);
    p.line =
        fmt::format("mpirun bound this rank to cpus {}: now {}, {} of {} local ranks, {} (--bind none keeps mpirun's)",
                    cpu_list(node.bound), cpu_list(p.cpus), rank.local_rank + 1, rank.local_size,
                    work_on(std::ssize(job) < rank.local_size ? 1 : std::ssize(share)));
    return p;
}

std::string cpu_list(const Cpus& cpus) {
    std::string list;
    for (size_t i = 0; i < cpus.size();) {
        size_t last = i;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
        if (!list.empty()) list += ',';
        list += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
        i = last + 1;
    }
    return list;
}

double parse_cpu_max(std::string_view text) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return 0;
    double quota = 0, period = 0;
    const auto number = [](std::string_view s, double& value) {
        return std::from_chars(s.data(), s.data() + s.size(), value).ec == std::errc() && value > 0;
    };
    return number(text.substr(0, space), quota) && number(text.substr(space + 1), period) ? quota / period : 0;
}

}  // namespace trireme
