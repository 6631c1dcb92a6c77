#pragma once
/// Which cores a rank may use, and how many compute threads it starts. Pure: binding.h reads the machine and applies
/// the result.

#include <string>
#include <string_view>
#include <vector>

#include "dist/rank_env.h"

namespace trireme {

/// Numbers of hardware threads, ascending.
using Cpus = std::vector<int>;

/// The node as this rank finds it.
struct NodeCores {
    std::vector<Cpus> cores;  // the hardware threads of each core, neighbouring cores adjacent
    Cpus bound;               // where this process may run now
    Cpus job;                 // where the job may run: the launcher's own binding; empty: not known
    int64_t job_cpus = 0;  // hardware threads of the job on this node, if only the number is known, too; 0: not known
    double quota = 0;      // CPUs' worth of time that the container may use; 0: no limit
    std::string policy;    // the binding the user asked the launcher for; empty: the launcher's default
};

struct Placement {
    Cpus cpus;                 // bind to these; empty: stay where the launcher put this rank
    int threads = 1;           // compute threads: those asked for, or one for each core
    std::string line;          // what was decided and why, for the log
    std::string warning = {};  // what was asked for and is not done; empty: nothing
};

/// Open MPI binds two ranks to one core each, which starves copy and worker threads: ranks it has bound by its own
/// default get a contiguous share of the job's cores each; with more ranks than cores they share all. What a user or
/// Slurm has bound stays.  bind: false leaves everything as it is (--bind none).  threads: how many were asked for
/// (-t), of which a rank gets no more than there are cpus that it may use; 0: as many as have a core each.
Placement place(const RankEnv& rank, const NodeCores& node, bool bind, int64_t threads = 0);

/// "0-7,16-23"
std::string cpu_list(const Cpus& cpus);
/// The limit in cgroup v2's cpu.max ("200000 100000" is 2); 0 for none ("max 100000").
double parse_cpu_max(std::string_view text);

}  // namespace trireme
