#include "dist/rank_env.h"

#include <array>
#include <charconv>
#include <string_view>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {
namespace {

class Reader {
  public:
    explicit Reader(const std::function<const char*(const char*)>& get) : get_(get) {}

    bool has(const char* name) const { return get_(name) != nullptr; }
    std::string_view text(const char* name) const { return has(name) ? get_(name) : ""; }

    /// Returns the number in a variable; `fallback` if it is not set.
    int number(const char* name, int least, int fallback) const {
        if (!has(name)) return fallback;
        const std::string_view s = text(name);
        int value = 0;
        const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
        require(error == std::errc() && end == s.data() + s.size() && value >= least, Exit::kConfig,
                "{}='{}': want a whole number from {} up", name, s, least);
        return value;
    }

  private:
    const std::function<const char*(const char*)>& get_;
};

/// Returns the number of ranks on node `node`; `list` is in Slurm's notation: "4(x2),3" is 4, 4, 3.
int tasks_on_node(std::string_view name, std::string_view list, int node) {
    const std::string_view whole = list;
    const auto number = [&] {
        int value = 0;
        const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), value);
        require(error == std::errc() && value > 0, Exit::kConfig, "{}='{}': want tasks per node, as in 4(x2),3", name,
                whole);
        list.remove_prefix(static_cast<size_t>(end - list.data()));
        return value;
    };
    const auto skip = [&](std::string_view token) {
        if (!list.starts_with(token)) return false;
        list.remove_prefix(token.size());
        return true;
    };
    while (true) {
        const int tasks = number();
        int nodes = 1;
        if (skip("(x")) {
            nodes = number();
            skip(")");
        }
        if (node < nodes) return tasks;
        node -= nodes;
        require(skip(","), Exit::kConfig, "{}='{}': does not reach this node", name, whole);
    }
}

}  // namespace

RankEnv rank_env(const std::function<const char*(const char*)>& get) {
    const Reader env(get);
    RankEnv e;
    if (env.has("OMPI_COMM_WORLD_SIZE")) {
        e.launcher = "mpirun";
        e.size = env.number("OMPI_COMM_WORLD_SIZE", 1, 1);
        e.rank = env.number("OMPI_COMM_WORLD_RANK", 0, 0);
        e.local_size = env.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, e.size);
        e.local_rank = env.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, e.rank);
    } else if (env.has("SLURM_STEP_NUM_TASKS")) {  // set by srun only; a batch script also has SLURM_PROCID
        e.launcher = "srun";
        e.size = env.number("SLURM_STEP_NUM_TASKS", 1, 1);
        e.rank = env.number("SLURM_PROCID", 0, 0);
        e.local_rank = env.number("SLURM_LOCALID", 0, e.rank);
        constexpr const char* kTasks = "SLURM_STEP_TASKS_PER_NODE";
        const int node = env.number("SLURM_NODEID", 0, 0);
        e.local_size = env.has(kTasks) ? tasks_on_node(kTasks, env.text(kTasks), node) : e.size;
    } else if (env.has("PMI_SIZE")) {
        e.launcher = "mpiexec";
        e.size = env.number("PMI_SIZE", 1, 1);
        e.rank = env.number("PMI_RANK", 0, 0);
        e.local_size = env.number("MPI_LOCALNRANKS", 1, e.size);
        e.local_rank = env.number("MPI_LOCALRANKID", 0, e.rank);
    } else if (env.has("PMIX_RANK")) {
        e.launcher = "prun";
        e.rank = env.number("PMIX_RANK", 0, 0);
        e.size = 0;
        return e;
    }
    require(e.rank < e.size && e.local_rank < e.local_size && e.local_size <= e.size, Exit::kConfig,
            "{}: rank {} of {}, {} of {} on this node: the launcher's environment contradicts itself", e.launcher,
            e.rank, e.size, e.local_rank, e.local_size);
    return e;
}

std::string host_name() {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

}  // namespace trireme
