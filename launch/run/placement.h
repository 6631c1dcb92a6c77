#pragma once
/// Placement of a rank on CPU cores: the cores that it may use, and its number of compute threads. (KV placement is
/// another thing: residency.h.) Pure functions; binding.h reads the machine and applies the result.

#include <string>
#include <string_view>
#include <vector>

#include "dist/rank_env.h"

namespace trireme {

/// Numbers of hardware threads, ascending.
using Cpus = std::vector<int>;

/// The CPUs of this node as this rank finds them.
struct NodeCores {
    std::vector<Cpus> cores;  // the hardware threads of each core, neighbouring cores adjacent
    Cpus bound;               // where this process may run now
    Cpus job;                 // where the job may run, from the launcher's own binding; empty: not known
    int64_t job_cpus = 0;  // hardware threads of the job on this node, even if only their number is known; 0: not known
    double quota = 0;      // CPU time per second that the container may use; 0: no limit
    std::string policy;    // the binding that the user requested from the launcher; empty: its default
};

struct Placement {
    Cpus cpus;                 // bind to these; empty: keep the launcher's binding
    int threads = 1;           // compute threads: the requested number, or one per core
    std::string line;          // the decision and its reason, for the log
    std::string warning = {};  // a request that is not honoured; empty: none
};

/// Chooses a rank's placement. Open MPI binds each of two ranks to one core, which starves copy and worker threads.
/// Ranks bound by its default therefore get a contiguous share of the job's cores each; with more ranks than cores each
/// gets all of them. A binding by the user or by Slurm is kept. `bind` false keeps every binding (--bind none).
/// `threads`: the requested number (-t), at most one per CPU that the rank may use; 0: one per core of its share. The
/// container's quota also limits them.
Placement place(const RankEnv& rank, const NodeCores& node, bool bind, int64_t threads = 0);

/// Returns "0-7,16-23".
std::string cpu_list(const Cpus& cpus);
/// The limit in the text of cgroup v2's cpu.max, in CPUs ("200000 100000" is 2); 0 if there is none ("max 100000").
double parse_cpu_max(std::string_view text);

}  // namespace trireme
