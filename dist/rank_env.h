#pragma once
/// RankEnv: this process's rank and the number of ranks, as the launcher set them in environment variables. It is known
/// before MPI starts.

#include <functional>
#include <string>

namespace trireme {

struct RankEnv {
    std::string launcher = "none";       // mpirun (Open MPI), srun, mpiexec (PMI), prun (PMIx), or none
    int rank = 0, size = 1;              // size 0: the launcher (prun) does not report it, MPI does
    int local_rank = 0, local_size = 1;  // among the ranks of this node; 0 and 1 if size is 0
};

/// Reads the variables through `get`: getenv, or a test's table. With nested launchers the inner one counts: mpirun
/// within a Slurm step. Errors: Exit::kConfig, naming the variable.
RankEnv rank_env(const std::function<const char*(const char* name)>& get);

/// Returns the name of the machine that this rank runs on.
std::string host_name();

}  // namespace trireme
