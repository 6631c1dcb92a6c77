#pragma once
/// What the launcher left in the environment.

#include <functional>
#include <string>

namespace trireme {

struct RankEnv {
    std::string launcher = "none";       // mpirun (Open MPI), srun, mpiexec (PMI), prun (PMIx), or none
    int rank = 0, size = 1;              // size 0: the launcher does not say, MPI has to be asked
    int local_rank = 0, local_size = 1;  // among the ranks of this node
};

/// `get` is getenv, or a test's table. Of nested launchers the inner one counts: mpirun within a Slurm step.
/// Errors: Exit::kConfig, naming the variable.
RankEnv rank_env(const std::function<const char*(const char* name)>& get);

/// The name of the machine this rank runs on.
std::string host_name();

}  // namespace trireme
