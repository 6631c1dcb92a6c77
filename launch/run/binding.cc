#include "launch/run/binding.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sched.h>
#include <unistd.h>

#include <hwloc.h>

#include "runtime/error.h"

namespace trireme {
namespace {

struct TopologyDeleter {
    void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
    void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

Topology topology() {
    hwloc_topology_t t = nullptr;
    require(hwloc_topology_init(&t) == 0, Exit::kOs, "hwloc cannot be started");
    Topology owned(t);
    require(hwloc_topology_load(t) == 0, Exit::kOs, "hwloc cannot read this machine");
    return owned;
}

Cpus cpus_of(hwloc_const_bitmap_t set) {
    Cpus cpus;
    for (int i = hwloc_bitmap_first(set); i != -1; i = hwloc_bitmap_next(set, i)) cpus.push_back(i);
    return cpus;
}

std::string read_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

/// A process's parent and the name of its program. /proc/<pid>/stat is "pid (name) state parent ...".
struct Process {
    pid_t parent = 0;
    std::string name;
};
Process process(pid_t pid) {
    const std::string stat = read_line(fmt::format("/proc/{}/stat", pid));
    const size_t open = stat.find('('), close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 >= stat.size()) return {};
    Process p;
    p.name = stat.substr(open + 1, close - open - 1);
    std::from_chars(stat.data() + close + 4, stat.data() + stat.size(), p.parent);
    return p;
}

/// The Open MPI process that started this one, directly or through a shell or a wrapper; 0 if it is not among this
/// process's ancestors.
pid_t find_launcher() {
    for (pid_t pid = getppid(); pid > 1;) {
        const Process p = process(pid);
        for (const char* name : {"mpirun", "mpiexec", "orte", "prte"}) {
            if (p.name.starts_with(name)) return pid;
        }
        pid = p.parent;
    }
    return 0;
}

/// The tightest limit of this process's cgroup and those around it.
double read_quota() {
    std::string group = read_line("/proc/self/cgroup");  // v2: "0::/path"
    if (!group.starts_with("0::/")) return 0;
    group.erase(0, 3);
    double quota = 0;
    while (true) {
        const double q = parse_cpu_max(read_line("/sys/fs/cgroup" + group + "/cpu.max"));
        if (q > 0 && (quota == 0 || q < quota)) quota = q;
        if (group.empty()) return quota;
        group.erase(group.rfind('/'));
    }
}

}  // namespace

NodeCores read_node(const RankEnv& rank) {
    const Topology t = topology();
    const Bitmap set(hwloc_bitmap_alloc());
    NodeCores node;

    const int n = hwloc_get_nbobjs_by_type(t.get(), HWLOC_OBJ_CORE);
    const hwloc_obj_type_t type = n > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;  // some virtual machines expose no cores
    for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(t.get(), type, o)) != nullptr;) {
        node.cores.push_back(cpus_of(o->cpuset));
    }
    if (hwloc_get_cpubind(t.get(), set.get(), HWLOC_CPUBIND_THREAD) == 0) node.bound = cpus_of(set.get());

    if (rank.launcher == "mpirun") {
        const pid_t launcher = find_launcher();
        if (launcher != 0 && hwloc_get_proc_cpubind(t.get(), launcher, set.get(), 0) == 0)
            node.job = cpus_of(set.get());
        node.job_cpus = std::ssize(node.job);
        const char* policy = std::getenv("OMPI_MCA_hwloc_base_binding_policy");  // set only if the user gave one
        node.policy = policy ? policy : "";
    } else if (rank.launcher == "srun") {
        const char* cpus = std::getenv("SLURM_CPUS_ON_NODE");
        node.job_cpus = cpus ? std::atoll(cpus) : 0;
    }
    node.quota = read_quota();
    return node;
}

bool bind_to(const Cpus& cpus) {
    if (cpus.empty()) return true;
    const auto most = static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end())) + 1;
    const std::unique_ptr<cpu_set_t, decltype(&__sched_cpufree)> set(CPU_ALLOC(most), __sched_cpufree);
    CPU_ZERO_S(CPU_ALLOC_SIZE(most), set.get());
    for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), CPU_ALLOC_SIZE(most), set.get());
    return sched_setaffinity(0, CPU_ALLOC_SIZE(most), set.get()) == 0;
}

}  // namespace trireme
